// Bytes into something and out of it again, in the machine's own order: for files that the same program reads
// back. A sink that takes no more and a source that has no more stay so: who writes or reads many things in a
// row may ask once, at the end. Owner: whoever made them. Thread: one at a time. Cost: a virtual call a
// value. Errors: false, or kCorrupt and the like from who knows more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace ft {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// False, also for all that follows, if it could not take all of them.
  virtual bool put(std::span<const std::byte> bytes) = 0;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `out`; false, also for all that follows, if it could not.
  virtual bool get(std::span<std::byte> out) = 0;
  /// Bytes that may follow, at most.
  virtual std::int64_t left() const = 0;
};

template <class T>
bool put_value(ByteSink& sink, const T& value) {
  static_assert(std::is_arithmetic_v<T>);
  return sink.put(std::as_bytes(std::span(&value, 1)));
}

/// Its length, then its elements.
template <class T>
bool put_list(ByteSink& sink, std::span<const T> list) {
  static_assert(std::is_arithmetic_v<T>);
  return put_value(sink, static_cast<std::int64_t>(list.size())) && sink.put(std::as_bytes(list));
}

template <class T>
bool get_value(ByteSource& source, T& value) {
  static_assert(std::is_arithmetic_v<T>);
  return source.get(std::as_writable_bytes(std::span(&value, 1)));
}

/// Never asks for more memory than the source has bytes.
template <class T>
bool get_list(ByteSource& source, std::vector<T>& list) {
  std::int64_t count = 0;
  if (!get_value(source, count)) return false;
  if (count < 0 || count > source.left() / static_cast<std::int64_t>(sizeof(T))) return false;
  list.resize(static_cast<std::size_t>(count));
  return source.get(std::as_writable_bytes(std::span(list)));
}

}  // namespace ft
