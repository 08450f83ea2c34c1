// Turns std::bad_alloc into an Error. The public functions of format/ that read files run inside this guard.
// A file header that asks for too much memory then gives kExhausted instead of an exception across a floor.
// Cost: nothing until it happens. The short message needs no allocation if even the sentence cannot be made.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace ft::format {

inline Error out_of_memory(std::string_view task, std::string_view object) {
  try {
    return Error{Code::kExhausted, std::string(object) + ": not enough memory to " + std::string(task) +
                                       "; close other programs or use a smaller model"};
  } catch (const std::bad_alloc&) {
    return Error{Code::kExhausted, "out of memory"};
  }
}

/// Runs `work`, which returns a Result or Status. On failure: "OBJECT: not enough memory to TASK; ...".
template <class Work>
auto with_memory_guard(std::string_view task, std::string_view object, Work&& work) -> decltype(work()) {
  try {
    return std::forward<Work>(work)();
  } catch (const std::bad_alloc&) {
    return out_of_memory(task, object);
  } catch (const std::length_error&) {
    return out_of_memory(task, object);
  }
}

}  // namespace ft::format
