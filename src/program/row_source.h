// RowSource: makes the rows of a weight that no file holds in the weight's own format, such as the blocks of
// GGUF, whose scales are among the codes. Owner: the Weights that refer to it share it; the mapped file that
// it reads must outlive it. Thread: const, several threads at once; it allocates nothing and does not
// throw. Cost: rows are made on every call, so a backend packs them once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ft {

/// The destination of a weight's rows, in its format. Scales and biases are null if the format has none.
struct RowBytes {
  std::byte* data = nullptr;
  std::byte* scales = nullptr;
  std::byte* biases = nullptr;
  std::byte* factors = nullptr;  // copy_apart() only
};

/// Scales of affine codes that are products: within `columns` columns of a row, a float16 times integers from
/// -128 to 127. Biases are such products too, or -zero * scale. All products are exact, so a backend may keep
/// factors and integers instead of the float32 scales.
struct ScaleFactors {
  int columns = 0;  // 0: they are not products
  int zero = 0;     // 0: biases have a factor and integers
};

class RowSource {
 public:
  RowSource() = default;
  RowSource(const RowSource&) = delete;
  RowSource& operator=(const RowSource&) = delete;
  virtual ~RowSource() = default;

  /// Rows [first, first + count) as the weight's format stores them.
  virtual void copy(std::int64_t first, std::int64_t count, const RowBytes& to) const = 0;
  /// The same rows as float32, without the weight's offset: [count, cols].
  virtual void read(std::int64_t first, std::int64_t count, float* out) const = 0;
  virtual ScaleFactors factors() const { return {}; }
  /// Whether copy_apart() gives the rows too.
  virtual bool apart() const { return false; }
  /// The rows of a quantised weight with a byte for each code. If factors() has columns, `to.scales`, and
  /// `to.biases` unless `zero`, get an int8 for each group, and `to.factors` for each `columns` columns a
  /// float16 of the scales, then one of the biases unless `zero`.
  virtual void copy_apart(std::int64_t, std::int64_t, const RowBytes&) const {}
};

struct Weight;
/// Bytes that one pass over the weight must read: Weight::bytes(), with factors where scales are products.
std::int64_t least_bytes(const Weight& weight);

}  // namespace ft
