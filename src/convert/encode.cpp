#include "convert/encode.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>

#include "base/system.h"
#include "format/block_floats.h"
#include "format/half.h"
#include "format/widest.h"

namespace ft::convert {
namespace {

using format::DType;
using format::QuantMode;
using How = OutputTensor::How;

constexpr std::int64_t kEncodedElements = std::int64_t{1} << 20;
constexpr std::int64_t kCacheElements = std::int64_t{1} << 15;  // of float32, in the fast cache of a core
constexpr std::int64_t kBlocksAhead = 16;                       // that are read before a worker needs them
constexpr std::uint64_t kDropBytes = std::uint64_t{256} << 20;

/// Buffers of one worker for a block of rows.
struct Buffers {
  std::vector<float> values;
  std::vector<std::byte> codes, scales, biases;
};

FT_WIDEST bool all_finite(const float* values, std::size_t count) {
  constexpr std::uint32_t kExponent = 0x7F800000U;
  std::uint32_t odd = 0;
  for (std::size_t i = 0; i < count; ++i) {
    odd |= static_cast<std::uint32_t>((std::bit_cast<std::uint32_t>(values[i]) & kExponent) == kExponent);
  }
  return odd == 0;
}

FT_WIDEST void narrow(const float* values, std::size_t count, DType type, std::byte* out) {
  if (type == DType::kF32) {
    std::memcpy(out, values, count * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t half =
        type == DType::kBF16 ? format::float_to_bf16(values[i]) : format::float_to_f16(values[i]);
    std::memcpy(out + 2 * i, &half, sizeof half);
  }
}

/// Writes one tensor: workers take blocks of rows in turn.
class TensorJob {
 public:
  TensorJob(const OutputTensor& tensor, format::SafetensorsWriter& writer, EncodeProgress& progress)
      : tensor_(tensor), writer_(writer), progress_(progress), specs_(tensor.specs()) {
    if (tensor.how == How::kCopy) {
      rows_ = static_cast<std::int64_t>(tensor.stored->bytes.size());
      block_ = kEncodedElements * 4;
      return;
    }
    rows_ = tensor.matrix->rows(), cols_ = tensor.matrix->cols();
    block_ = std::max<std::int64_t>(1, kEncodedElements / std::max<std::int64_t>(1, cols_));
  }

  /// The first blocks may come from the disk while another tensor is written.
  void read_ahead() const {
    if (rows_ > 0) ahead(0, std::min(rows_, kBlocksAhead * block_));
  }

  void operator()(int, int) {
    Buffers buffers;
    try {
      for (;;) {
        const std::int64_t first = next_.fetch_add(block_);
        if (first >= rows_ || stopped_.load()) return;
        const std::int64_t later = first + kBlocksAhead * block_;
        if (later < rows_) ahead(later, std::min(block_, rows_ - later));
        block(first, std::min(block_, rows_ - first), buffers);
      }
    } catch (const std::bad_alloc&) {
      stop(Error{Code::kExhausted, "memory ran out while " + tensor_.name + " was converted"});
    }
  }

  const Status& status() const { return status_; }

 private:
  void ahead(std::int64_t first, std::int64_t count) const {
    if (tensor_.how == How::kCopy) {
      ft::read_ahead(tensor_.stored->bytes.data() + first, static_cast<std::size_t>(count));
    } else {
      tensor_.matrix->read_ahead(first, count);
    }
  }

  void block(std::int64_t first, std::int64_t count, Buffers& buffers) {
    switch (tensor_.how) {
      case How::kCopy: {
        const auto bytes =
            tensor_.stored->bytes.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
        put({{bytes, static_cast<std::uint64_t>(first)}}, count);
        return;
      }
      case How::kMoveCodes:
        return move_codes(first, count, buffers);
      case How::kEncode:
        return encode(first, count, buffers);
      default:
        return plain(first, count, buffers);
    }
  }

  /// Calls `use(row, rows)` with float32 values of a few rows at a time in buffers.values; false after an
  /// error.
  template <class Use>
  bool in_cache(std::int64_t first, std::int64_t count, Buffers& buffers, Use use) {
    const std::int64_t few = std::max<std::int64_t>(1, kCacheElements / std::max<std::int64_t>(1, cols_));
    buffers.values.resize(static_cast<std::size_t>(std::min(few, count) * cols_));
    for (std::int64_t row = 0; row < count; row += few) {
      const std::int64_t rows = std::min(few, count - row);
      tensor_.matrix->read(first + row, rows, buffers.values.data());
      if (!all_finite(buffers.values.data(), static_cast<std::size_t>(rows * cols_))) {
        stop(Error{Code::kCorrupt, tensor_.name + ": has an infinity or a NaN near row " +
                                       std::to_string(first + row) +
                                       ", which has no codes; download the source again"});
        return false;
      }
      use(static_cast<std::size_t>(row), static_cast<std::size_t>(rows));
    }
    return true;
  }

  void plain(std::int64_t first, std::int64_t count, Buffers& buffers) {
    const std::size_t width = format::dtype_bytes(tensor_.type);
    const auto row_bytes = static_cast<std::size_t>(cols_) * width;
    buffers.codes.resize(static_cast<std::size_t>(count) * row_bytes);
    const bool whole = in_cache(first, count, buffers, [&](std::size_t row, std::size_t rows) {
      const std::size_t elements = rows * static_cast<std::size_t>(cols_);
      for (std::size_t i = 0; i < elements && tensor_.how == How::kAddOne; ++i) buffers.values[i] += 1.0F;
      narrow(buffers.values.data(), elements, tensor_.type, buffers.codes.data() + row * row_bytes);
    });
    if (whole) put({{buffers.codes, static_cast<std::uint64_t>(first) * row_bytes}}, count);
  }

  void size_codes(std::int64_t count, Buffers& buffers) {
    const auto rows = static_cast<std::size_t>(count);
    const format::CodeFormat format{tensor_.q, scale_type()};
    buffers.codes.resize(rows * format::code_row_bytes(tensor_.q, cols_));
    buffers.scales.resize(rows * format::scale_row_bytes(format, cols_));
    buffers.biases.resize(affine() ? buffers.scales.size() : 0);
  }

  void encode(std::int64_t first, std::int64_t count, Buffers& buffers) {
    size_codes(count, buffers);
    const std::size_t code_row = format::code_row_bytes(tensor_.q, cols_);
    const std::size_t scale_row = format::scale_row_bytes({tensor_.q, scale_type()}, cols_);
    const bool whole = in_cache(first, count, buffers, [&](std::size_t row, std::size_t rows) {
      const std::int64_t groups = static_cast<std::int64_t>(rows) * (cols_ / tensor_.q.group);
      // operator new aligns the codes, and a row has whole words
      auto* words = reinterpret_cast<std::uint32_t*>(buffers.codes.data() + row * code_row);
      std::byte* scales = buffers.scales.data() + row * scale_row;
      if (affine()) {
        format::quantise_groups(buffers.values.data(), groups, tensor_.q.bits, tensor_.q.group, tensor_.type,
                                words, scales, buffers.biases.data() + row * scale_row);
      } else {
        format::quantise_blocks(buffers.values.data(), groups, tensor_.q.mode, tensor_.type, words, scales);
      }
    });
    if (whole) put_codes(first, count, buffers);
  }

  void move_codes(std::int64_t first, std::int64_t count, Buffers& buffers) {
    size_codes(count, buffers);
    tensor_.matrix->read_codes(
        first, count,
        {buffers.codes.data(), buffers.scales.data(), affine() ? buffers.biases.data() : nullptr});
    put_codes(first, count, buffers);
  }

  void put_codes(std::int64_t first, std::int64_t count, const Buffers& buffers) {
    const auto before = [&](const std::vector<std::byte>& bytes) {
      return static_cast<std::uint64_t>(first) * (bytes.size() / static_cast<std::size_t>(count));
    };
    put({{buffers.codes, before(buffers.codes)},
         {buffers.scales, before(buffers.scales)},
         {buffers.biases, before(buffers.biases)}},
        count);
  }

  struct Piece {
    std::span<const std::byte> bytes;
    std::uint64_t offset;
  };

  /// Writes a piece of each tensor of specs_, in order, while other workers write theirs.
  void put(std::initializer_list<Piece> pieces, std::int64_t rows) {
    std::size_t i = 0;
    for (const Piece& piece : pieces) {
      if (i == specs_.size()) break;
      if (Status written = writer_.write(specs_[i++].name, piece.bytes, piece.offset); !written.ok())
        return stop(written.error());
    }
    const std::lock_guard lock(mutex_);
    const std::uint64_t read = tensor_.source_bytes * static_cast<std::uint64_t>(rows) /
                               static_cast<std::uint64_t>(std::max<std::int64_t>(1, rows_));
    progress_.done += read, progress_.since_drop += read;
    if (progress_.since_drop >= kDropBytes && progress_.drop_pages) {
      progress_.drop_pages();
      progress_.since_drop = 0;
    }
    if (progress_.call && !progress_.call(std::min(progress_.done, progress_.all), progress_.all))
      keep(Error{Code::kCancelled, "stopped; the same command continues where it ended"});
  }

  void stop(const Error& error) {
    const std::lock_guard lock(mutex_);
    keep(error);
  }

  void keep(const Error& error) {
    if (status_.ok()) status_ = error;
    stopped_ = true;
  }

  bool affine() const { return tensor_.q.mode == QuantMode::kAffine; }
  DType scale_type() const { return affine() ? tensor_.type : DType::kU8; }

  const OutputTensor& tensor_;
  format::SafetensorsWriter& writer_;
  EncodeProgress& progress_;
  std::vector<format::TensorSpec> specs_;
  std::int64_t rows_ = 0, cols_ = 1, block_ = 1;
  std::atomic<std::int64_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  Status status_;
};

}  // namespace

Result<format::SafetensorsWriter> write_tensors(const OutputFile& file, const std::string& path,
                                                ThreadPool& pool, EncodeProgress& progress) {
  std::vector<format::TensorSpec> specs;
  for (const OutputTensor& tensor : file.tensors) {
    for (format::TensorSpec& spec : tensor.specs()) specs.push_back(std::move(spec));
  }
  FT_ASSIGN(format::SafetensorsWriter writer,
            format::SafetensorsWriter::create(path, specs, {{"format", "mlx"}}));
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    if (i + 1 < file.tensors.size()) TensorJob(file.tensors[i + 1], writer, progress).read_ahead();
    TensorJob job(file.tensors[i], writer, progress);
    pool.run(job);
    FT_TRY(job.status());
  }
  return writer;
}

}  // namespace ft::convert
