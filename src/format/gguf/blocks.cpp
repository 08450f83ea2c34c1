#include "format/gguf/blocks.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/system.h"
#include "format/half.h"
#include "format/small_float.h"

namespace ft::format {
namespace {

constexpr int kGroup = 32;
constexpr int kSuperBlock = 256;

/// Up to 32 codes and their meaning: value = code * scale + bias.
struct Group {
  std::uint8_t codes[kGroup];
  float scale, bias;
};

unsigned byte_at(const std::byte* block, int index) { return std::to_integer<unsigned>(block[index]); }
float half_at(const std::byte* block, int index) { return f16_to_float(load_u16(block + index)); }

/// The bits `mask` from bit `shift` on of each of eight bytes, as bytes.
std::uint64_t fields(const std::byte* bytes, int shift, unsigned mask) {
  std::uint64_t eight = 0;
  std::memcpy(&eight, bytes, sizeof eight);
  return eight >> shift & mask * 0x0101010101010101U;
}
void put_eight(std::uint64_t eight, std::uint8_t* codes) { std::memcpy(codes, &eight, sizeof eight); }

/// Element j is the low nibble of byte j, element j + 16 the high one.
void split_nibbles(const std::byte* bytes, std::uint8_t* codes) {
  for (int j = 0; j < kGroup / 2; ++j) {
    codes[j] = static_cast<std::uint8_t>(byte_at(bytes, j) & 15U);
    codes[j + kGroup / 2] = static_cast<std::uint8_t>(byte_at(bytes, j) >> 4);
  }
}

void add_fifth_bits(const std::byte* bytes, std::uint8_t* codes) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  for (int j = 0; j < kGroup; ++j) codes[j] = static_cast<std::uint8_t>(codes[j] | ((bits >> j & 1U) << 4));
}

void read_q4_0(const std::byte* block, Group* out) {
  split_nibbles(block + 2, out->codes);
  out->scale = half_at(block, 0), out->bias = -8 * out->scale;
}

void read_q4_1(const std::byte* block, Group* out) {
  split_nibbles(block + 4, out->codes);
  out->scale = half_at(block, 0), out->bias = half_at(block, 2);
}

void read_q5_0(const std::byte* block, Group* out) {
  split_nibbles(block + 6, out->codes);
  add_fifth_bits(block + 2, out->codes);
  out->scale = half_at(block, 0), out->bias = -16 * out->scale;
}

void read_q5_1(const std::byte* block, Group* out) {
  split_nibbles(block + 8, out->codes);
  add_fifth_bits(block + 4, out->codes);
  out->scale = half_at(block, 0), out->bias = half_at(block, 2);
}

void read_q8_0(const std::byte* block, Group* out) {
  for (int j = 0; j < kGroup; ++j) out->codes[j] = static_cast<std::uint8_t>(byte_at(block, 2 + j) ^ 128U);
  out->scale = half_at(block, 0), out->bias = -128 * out->scale;
}

/// The scales and minima of 6 bits of eight groups, in 12 bytes.
void k_scales(const std::byte* block, Group* out) {
  const float d = half_at(block, 0), dmin = half_at(block, 2);
  const std::byte* packed = block + 4;
  for (int g = 0; g < 8; ++g) {
    const unsigned scale = g < 4 ? byte_at(packed, g) & 63U
                                 : (byte_at(packed, g + 4) & 15U) | (byte_at(packed, g - 4) >> 6 << 4);
    const unsigned low =
        g < 4 ? byte_at(packed, g + 4) & 63U : byte_at(packed, g + 4) >> 4 | (byte_at(packed, g) >> 6 << 4);
    out[g].scale = d * static_cast<float>(scale), out[g].bias = -(dmin * static_cast<float>(low));
  }
}

void k_nibbles(const std::byte* bytes, Group* out) {
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < kGroup; j += 8)
      put_eight(fields(bytes + g / 2 * 32 + j, g % 2 * 4, 15), out[g].codes + j);
  }
}

void read_q4_k(const std::byte* block, Group* out) {
  k_scales(block, out);
  k_nibbles(block + 16, out);
}

void read_q5_k(const std::byte* block, Group* out) {
  k_scales(block, out);
  k_nibbles(block + 48, out);
  for (int g = 0; g < 8; ++g) {
    for (int j = 0; j < kGroup; j += 8) {
      std::uint64_t low = 0;
      std::memcpy(&low, out[g].codes + j, sizeof low);
      put_eight(low | fields(block + 16 + j, g, 1) << 4, out[g].codes + j);
    }
  }
}

// Groups of 16. The products below have at most 24 significant bits, so code * scale + bias is exactly the
// type's value.
void read_q6_k(const std::byte* block, Group* out) {
  const float d = half_at(block, 208);
  for (int g = 0; g < 16; ++g) {
    const int half = g / 8, quarter = g % 8 / 2, first = g % 2 * 16;
    const std::byte* const low = block + half * 64 + quarter % 2 * 32 + first;
    const std::byte* const high = block + 128 + half * 32 + first;
    for (int j = 0; j < 16; j += 8) {
      put_eight(fields(low + j, quarter / 2 * 4, 15) | fields(high + j, quarter * 2, 3) << 4,
                out[g].codes + j);
    }
  }
  for (int g = 0; g < 16; ++g) {
    const auto scale = static_cast<std::int8_t>(byte_at(block, 192 + g));
    out[g].scale = d * static_cast<float>(scale), out[g].bias = -32 * out[g].scale;
  }
}

/// Codes of 3 bits, stored in 4.
void read_q3_k(const std::byte* block, Group* out) {
  const float d = half_at(block, 108);
  for (int i = 0; i < kSuperBlock; ++i) {
    const int shift = i % 128 / 32 * 2;
    const unsigned low = byte_at(block, 32 + i / 128 * 32 + i % 32) >> shift & 3U;
    const unsigned high = byte_at(block, i % 32) >> (i / 32) & 1U;
    out[i / 16].codes[i % 16] = static_cast<std::uint8_t>(low | high << 2);
  }
  for (int g = 0; g < 16; ++g) {
    const unsigned low = byte_at(block, 96 + g % 8) >> (g / 8 * 4) & 15U;
    const unsigned high = byte_at(block, 104 + g % 4) >> (g / 4 * 2) & 3U;
    out[g].scale = d * static_cast<float>(static_cast<int>(low | high << 4) - 32);
    out[g].bias = -4 * out[g].scale;
  }
}

/// Codes of 2 bits, stored in 4.
void read_q2_k(const std::byte* block, Group* out) {
  const float d = half_at(block, 80), dmin = half_at(block, 82);
  for (int i = 0; i < kSuperBlock; ++i) {
    const unsigned code = byte_at(block, 16 + i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3U;
    out[i / 16].codes[i % 16] = static_cast<std::uint8_t>(code);
  }
  for (int g = 0; g < 16; ++g) {
    const unsigned packed = byte_at(block, g);
    out[g].scale = d * static_cast<float>(packed & 15U);
    out[g].bias = -(dmin * static_cast<float>(packed >> 4));
  }
}

constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};

/// The codes are places in a table of bytes; the table's values are codes of 8 bits.
void read_iq4_nl(const std::byte* block, Group* out) {
  split_nibbles(block + 2, out->codes);
  for (std::uint8_t& code : out->codes) code = static_cast<std::uint8_t>(kIq4Values[code] + 128);
  out->scale = half_at(block, 0), out->bias = -128 * out->scale;
}

struct BlockType {
  std::uint32_t id;
  std::string_view name;
  int elements, bytes;
  int bits, group;  // of affine codes; 0: none
  bool exact_half;  // scales and biases are float16
  void (*groups)(const std::byte*, Group*);
  int zero = 0;  // of the K types: the code of 0, if biases are -zero * scale
};

constexpr std::uint32_t kMxfp4 = 39;
constexpr std::array<BlockType, 15> kTypes = {{
    {0, "F32", 1, 4, 0, 0, false, nullptr},
    {1, "F16", 1, 2, 0, 0, false, nullptr},
    {30, "BF16", 1, 2, 0, 0, false, nullptr},
    {2, "Q4_0", 32, 18, 4, 32, true, read_q4_0},
    {3, "Q4_1", 32, 20, 4, 32, true, read_q4_1},
    {6, "Q5_0", 32, 22, 5, 32, true, read_q5_0},
    {7, "Q5_1", 32, 24, 5, 32, true, read_q5_1},
    {8, "Q8_0", 32, 34, 8, 32, true, read_q8_0},
    {20, "IQ4_NL", 32, 18, 8, 32, true, read_iq4_nl},
    {12, "Q4_K", 256, 144, 4, 32, false, read_q4_k},
    {13, "Q5_K", 256, 176, 5, 32, false, read_q5_k},
    {10, "Q2_K", 256, 84, 4, 16, false, read_q2_k},
    {11, "Q3_K", 256, 110, 4, 16, false, read_q3_k, 4},
    {14, "Q6_K", 256, 210, 6, 16, false, read_q6_k, 32},
    {kMxfp4, "MXFP4", 32, 17, 0, 0, false, nullptr},
}};
// Types that exist but are not read: for the message.
constexpr std::pair<std::uint32_t, std::string_view> kRefused[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {29, "IQ1_M"},
    {34, "TQ1_0"}, {35, "TQ2_0"}, {40, "NVFP4"}};

const BlockType* find_type(std::uint32_t id) {
  for (const BlockType& type : kTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

class GroupMatrix final : public MatrixSource {
 public:
  GroupMatrix(const BlockType& type, std::int64_t rows, std::int64_t cols, const std::byte* bytes, bool wide)
      : MatrixSource(rows, cols, DType::kF16), type_(type), bytes_(bytes), wide_(wide && !type.exact_half) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    for_groups(first, count, [&](const Group& group) {
      for (int i = 0; i < type_.group; ++i)
        *out++ = static_cast<float>(group.codes[i]) * group.scale + group.bias;
    });
  }

  std::optional<CodeFormat> codes() const override {
    CodeFormat format{{QuantMode::kAffine, type_.bits, type_.group},
                      wide_ ? DType::kF32 : DType::kF16,
                      wide_ || type_.exact_half};
    if (wide_) format.factored = {kSuperBlock, type_.zero};
    return format;
  }

  std::optional<Quantisation> nearest() const override { return Quantisation{QuantMode::kAffine, 8, kGroup}; }

  void read_ahead(std::int64_t first, std::int64_t count) const override {
    const std::int64_t row = cols() / type_.elements * type_.bytes;
    ft::read_ahead(bytes_ + first * row, static_cast<std::size_t>(count * row));
  }

  void read_codes(std::int64_t first, std::int64_t count, const CodeRows& out) const override {
    CodeRows at = out;
    for_groups(first, count, [&](const Group& group) {
      pack_codes(group.codes, type_.bits, type_.group, at.codes);
      at.codes += static_cast<std::size_t>(type_.bits * type_.group) / 8;
      store(group.scale, at.scales);
      store(group.bias, at.biases);
    });
  }

 private:
  void store(float value, std::byte*& at) const {
    if (wide_) {
      std::memcpy(at, &value, sizeof value);
    } else {
      const std::uint16_t half = float_to_f16(value);
      std::memcpy(at, &half, sizeof half);
    }
    at += wide_ ? sizeof(float) : sizeof(std::uint16_t);
  }

  template <class Act>
  void for_groups(std::int64_t first, std::int64_t count, Act act) const {
    const std::int64_t blocks = cols() / type_.elements;
    std::array<Group, kSuperBlock / 16> groups;
    const std::byte* block = bytes_ + first * blocks * type_.bytes;
    for (std::int64_t i = 0; i < count * blocks; ++i, block += type_.bytes) {
      type_.groups(block, groups.data());
      for (int g = 0; g < type_.elements / type_.group; ++g) act(groups[static_cast<std::size_t>(g)]);
    }
  }

  const BlockType& type_;
  const std::byte* bytes_;
  bool wide_;
};

/// 17 bytes a block: the scale, then nibbles j and j + 16.
class Mxfp4Matrix final : public MatrixSource {
 public:
  Mxfp4Matrix(std::int64_t rows, std::int64_t cols, const std::byte* bytes)
      : MatrixSource(rows, cols, DType::kBF16), bytes_(bytes) {}

  void read(std::int64_t first, std::int64_t count, float* out) const override {
    for_blocks(first, count, [&](std::uint8_t scale, const std::uint8_t* codes) {
      const float step = e8m0_to_float(scale);
      for (int j = 0; j < kGroup; ++j) *out++ = e2m1_to_float(codes[j]) * step;
    });
  }

  std::optional<CodeFormat> codes() const override {
    return CodeFormat{usual_quantisation(QuantMode::kMxfp4), DType::kU8, true};
  }

  void read_codes(std::int64_t first, std::int64_t count, const CodeRows& out) const override {
    CodeRows at = out;
    for_blocks(first, count, [&](std::uint8_t scale, const std::uint8_t* codes) {
      pack_codes(codes, 4, kGroup, at.codes);
      at.codes += kGroup / 2;
      *at.scales++ = std::byte{scale};
    });
  }

 private:
  template <class Act>
  void for_blocks(std::int64_t first, std::int64_t count, Act act) const {
    constexpr int kBlockBytes = 17;
    const std::int64_t blocks = cols() / kGroup;
    std::uint8_t codes[kGroup];
    const std::byte* block = bytes_ + first * blocks * kBlockBytes;
    for (std::int64_t i = 0; i < count * blocks; ++i, block += kBlockBytes) {
      split_nibbles(block + 1, codes);
      act(static_cast<std::uint8_t>(byte_at(block, 0)), codes);
    }
  }

  const std::byte* bytes_;
};

}  // namespace

std::string gguf_type_name(std::uint32_t id) {
  if (const BlockType* type = find_type(id); type != nullptr) return std::string(type->name);
  for (const auto& [number, name] : kRefused) {
    if (number == id) return std::string(name);
  }
  return "type " + std::to_string(id);
}

Result<std::uint64_t> gguf_bytes(std::uint32_t id, std::span<const std::int64_t> shape,
                                 const std::string& path, const std::string& tensor) {
  const BlockType* type = find_type(id);
  if (type == nullptr) {
    return tensor_error(Code::kUnsupported, path, tensor,
                        "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL or MXFP4",
                        gguf_type_name(id), "download a file of another type, such as Q4_K_M or Q8_0");
  }
  const std::int64_t cols = shape.empty() ? 1 : shape.back();
  std::uint64_t bytes =
      static_cast<std::uint64_t>(cols / type->elements) * static_cast<std::uint64_t>(type->bytes);
  bool fits = cols % type->elements == 0;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i)
    fits = fits && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(shape[i]), &bytes);
  if (fits && bytes <= INT64_MAX) return bytes;
  return tensor_error(
      Code::kCorrupt, path, tensor,
      "rows of a multiple of " + std::to_string(type->elements) + " elements, below 2^63 bytes",
      shape_text(shape), "download the file again");
}

MatrixPointer gguf_matrix(std::uint32_t id, std::int64_t rows, std::int64_t cols, const std::byte* bytes,
                          bool float32_scales) {
  const BlockType& type = *find_type(id);
  if (type.groups != nullptr) return std::make_shared<GroupMatrix>(type, rows, cols, bytes, float32_scales);
  if (id == kMxfp4) return std::make_shared<Mxfp4Matrix>(rows, cols, bytes);
  TensorView view;
  view.dtype = id == 0 ? DType::kF32 : id == 1 ? DType::kF16 : DType::kBF16;
  view.shape = {rows, cols};
  view.bytes = {bytes, static_cast<std::size_t>(rows * cols) * dtype_bytes(view.dtype)};
  return plain_matrix(view);
}

}  // namespace ft::format
