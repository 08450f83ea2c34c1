// Result<T>: a value or an Error, for everything that the caller or the world can get wrong: files, flags,
// JSON, limits. An Error's sentence says what is wrong, where, and what to do next. Programming mistakes are
// FT_ASSERT (base/assert.h), never an Error; input never aborts. Success allocates nothing besides T.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "base/assert.h"

namespace ft {

enum class Code {
  kInvalid,      // the caller's input is wrong: flag, field, prompt
  kNotFound,     // a file, tensor or name is absent
  kCorrupt,      // a file is truncated, lies about itself or cannot be parsed
  kUnsupported,  // understood, but not something this build runs
  kExhausted,    // memory, disk, context or another limit is used up
  kTooLong,      // a prompt beyond the context
  kBusy,         // full for now; the same will work later
  kIo,           // the operating system, a backend or a library failed
  kCancelled,    // stopped by the caller
};

struct Error {
  Code code = Code::kInvalid;
  std::string message;
  std::string field{};  // of the wrong request field: "messages[0].role"; empty: none
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value)
      : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Error error)
      : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  T& value() & {
    FT_ASSERT(ok());
    return std::get<0>(state_);
  }
  const T& value() const& {
    FT_ASSERT(ok());
    return std::get<0>(state_);
  }
  T&& value() && {
    FT_ASSERT(ok());
    return std::move(std::get<0>(state_));
  }
  const Error& error() const {
    FT_ASSERT(!ok());
    return std::get<1>(state_);
  }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)), failed_(true) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !failed_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    FT_ASSERT(failed_);
    return error_;
  }

 private:
  Error error_;
  bool failed_ = false;
};

}  // namespace ft

/// Returns the error of `expr` (a Status or a Result) to the caller, if it has one.
#define FT_TRY(expr)                                                 \
  do {                                                               \
    if (const auto& ft_try_status_ = (expr); !ft_try_status_.ok()) { \
      return ft_try_status_.error();                                 \
    }                                                                \
  } while (false)

#define FT_CONCAT_INNER(a, b) a##b
#define FT_CONCAT(a, b) FT_CONCAT_INNER(a, b)

/// FT_ASSIGN(auto x, maybe()): x is the value, or the function returns the error.
#define FT_ASSIGN(declaration, expr)                \
  auto FT_CONCAT(ft_result_, __LINE__) = (expr);    \
  if (!FT_CONCAT(ft_result_, __LINE__).ok()) {      \
    return FT_CONCAT(ft_result_, __LINE__).error(); \
  }                                                 \
  declaration = std::move(*FT_CONCAT(ft_result_, __LINE__))
