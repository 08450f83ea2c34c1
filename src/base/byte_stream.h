// Byte sinks and sources in the machine's own byte order, for files that the same program reads back. A sink
// or source that has failed once fails for good, so a caller may check once after many calls. Cost: a virtual
// call per value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ft {

class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// False, and false for all later calls, if the sink could not take all bytes.
  virtual bool put(std::span<const std::byte> bytes) = 0;
  /// The bytes from here to end_shared() depend only on `kind` and the first `tokens` tokens of the sequence
  /// that is written, so a sink may store them once for all sequences that begin so. False: it has them, and
  /// the caller leaves them out, end_shared() too.
  virtual bool begin_shared(std::string_view kind, std::int64_t tokens) {
    (void)kind, (void)tokens;
    return true;
  }
  virtual void end_shared() {}
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `out`; false, and false for all later calls, if the source ran out.
  virtual bool get(std::span<std::byte> out) = 0;
  /// Upper bound on the bytes that may follow.
  virtual std::int64_t left() const = 0;
  /// The counterparts of the sink's calls: get() may take the bytes in between from elsewhere.
  virtual void begin_shared(std::string_view kind, std::int64_t tokens) { (void)kind, (void)tokens; }
  virtual void end_shared() {}
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
