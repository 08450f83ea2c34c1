#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/executable.h"
#include "backends/cpu/memory.h"
#include "backends/cpu/ops/rows_of_others.h"
#include "backends/weight_rows.h"
#include "format/half.h"

namespace ft::cpu {
namespace {

/// Values beyond the float16 range become its largest number, not infinity.
std::uint16_t saturated_f16(float value) {
  return format::float_to_f16(std::clamp(value, -65504.0F, 65504.0F));
}

class RotaryOp final : public Operation {
 public:
  explicit RotaryOp(Rotary& rotary) : rotary_(rotary) {}
  void run(const Step& step, int worker, int workers) override {
    const std::size_t half = rotary_.frequencies.size();
    const Range range = partition(step.rows, 1, worker, workers);
    for (std::int64_t r = range.first; r < range.last; ++r) {
      const auto at = static_cast<std::size_t>(r) * half;
      for (std::size_t j = 0; j < half; ++j) {
        const float angle = static_cast<float>(turned_by(step, r, j)) * rotary_.frequencies[j];
        rotary_.cosines[at + j] = std::cos(angle) * rotary_.scale;
        rotary_.sines[at + j] = std::sin(angle) * rotary_.scale;
      }
    }
  }

 private:
  /// The position that turns frequency `j` for the row.
  std::int64_t turned_by(const Step& step, std::int64_t row, std::size_t j) const {
    const auto& coordinates = step.args->coordinates;
    if (coordinates.empty() || rotary_.axes.empty()) return step.positions[row];
    return coordinates[static_cast<std::size_t>(row)][rotary_.axes[j]];
  }

  Rotary& rotary_;
};

constexpr int kSliceDims = 32;                     // of a head, that one worker appends for all rows
constexpr std::int64_t kMinShared = 4 * kKeyRows;  // fewer positions are not worth three barriers

/// Memory of a key/value head that workers share, in floats.
std::int64_t share_floats(const Attention& op) {
  const std::int64_t padded = round_up(op.head_dim, kLanes);
  return kQueryTile * (kSharePositions + 3 * kShareBlocks + padded + kLanes) +
         (padded + kShareColumns - 1) / kShareColumns * kQueryTile;
}

/// True if there are so few key/value heads that workers must share them.
bool has_few_heads(const Attention& op, int workers) { return 2 * op.kv_heads <= workers; }

/// Two phases. First, every attention head of every row is normalised and rotated, and keys and values are
/// appended. After a barrier the work items are (segment, key/value head, tile of queries). The queries of a
/// tile are independent of each other, so tiles may have any size.
class AttendOp final : public Operation {
 public:
  AttendOp(const Attention& op, const BuildContext& context)
      : op_(op),
        q_(context.matrix(op.q)),
        k_(context.matrix(op.k)),
        v_(context.matrix(op.v)),
        out_(context.matrix(op.out)),
        rotary_(context.rotary),
        query_(reinterpret_cast<float*>(context.scratch)),
        shared_(query_ + static_cast<std::int64_t>(context.options.max_rows) * op.heads * op.head_dim),
        worker_scratch_(context.worker_scratch),
        worker_floats_(context.worker_floats),
        q_norm_(decode(op.q_norm)),
        k_norm_(decode(op.k_norm)),
        sinks_(decode(op.sinks)) {
    if (op.v_norm) v_norm_.assign(static_cast<std::size_t>(op.head_dim), 1);
  }

  void run(const Step& step, int worker, int workers) override {
    if (step.small_batch && heads_divide(op_.kv_heads, workers)) return run_heads(step, worker, workers);
    step.small_batch ? prepare_few(step, worker, workers) : prepare(step, worker, workers);
    step.barrier(worker);
    const int group = op_.heads / op_.kv_heads;
    std::int64_t first_row = 0;
    for (const Segment& segment : step.args->segments) {
      const std::int64_t queries = static_cast<std::int64_t>(segment.rows) * group;  // of one key/value head
      if (shares_heads(step, segment, workers)) {
        run_shared(step, segment, first_row, worker, workers);
        first_row += segment.rows;
        continue;
      }
      const std::int64_t tile = std::clamp<std::int64_t>(queries * op_.kv_heads / workers, 1,
                                                         std::min<std::int64_t>(queries, kQueryTile));
      const std::int64_t tiles = (queries + tile - 1) / tile;
      // Items are dealt out one by one, because later queries see more positions and consecutive ranges would
      // be uneven.
      for (std::int64_t item = worker; item < tiles * op_.kv_heads; item += workers) {
        const auto kv_head = static_cast<int>(item / tiles);
        const std::int64_t first = item % tiles * tile;
        attend(step, segment, first_row, kv_head, first, std::min(queries, first + tile), worker);
      }
      first_row += segment.rows;
    }
  }

 private:
  /// A worker has the same key/value heads of every segment, so it appends the rows that it reads.
  void run_heads(const Step& step, int worker, int workers) {
    const Range range = partition(op_.kv_heads, 1, worker, workers);
    const int group = op_.heads / op_.kv_heads;
    std::int64_t first_row = 0;
    for (const Segment& segment : step.args->segments) {
      const std::int64_t queries = static_cast<std::int64_t>(segment.rows) * group;
      for (std::int64_t at = range.first; at < range.last; ++at) {
        const auto kv_head = static_cast<int>(at);
        for (std::int64_t r = 0; r < segment.rows; ++r) {
          if (!op_.shared)
            append({step, segment, first_row + r, segment.position + r, kv_head, worker}, all());
          for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
            prepare_query(step, first_row + r, head, worker);
        }
        for (std::int64_t first = 0; first < queries; first += kQueryTile)
          attend(step, segment, first_row, kv_head, first, std::min(queries, first + kQueryTile), worker);
      }
      first_row += segment.rows;
    }
  }

  static std::vector<float> decode(const Weight& weight) {
    std::vector<float> values(static_cast<std::size_t>(weight.empty() ? 0 : weight.rows * weight.cols));
    if (!weight.empty()) read_rows(weight, 0, weight.rows, values.data());
    return values;
  }

  void prepare(const Step& step, int worker, int workers) const {
    const int heads = op_.heads + (op_.shared ? 0 : op_.kv_heads);
    std::int64_t first_row = 0;
    for (const Segment& segment : step.args->segments) {
      const Range range = partition(static_cast<std::int64_t>(segment.rows) * heads, 1, worker, workers);
      for (std::int64_t item = range.first; item < range.last; ++item) {
        const std::int64_t r = item / heads;
        const auto head = static_cast<int>(item % heads);
        if (head < op_.heads) {
          prepare_query(step, first_row + r, head, worker);
        } else {
          append({step, segment, first_row + r, segment.position + r, head - op_.heads, worker}, all());
        }
      }
      first_row += segment.rows;
    }
  }

  /// The same for a small batch. Keys are stored by dimension, and a line of the cache holds one dimension of
  /// all its positions. So a worker appends some dimensions of all rows, and no line has two writers.
  void prepare_few(const Step& step, int worker, int workers) const {
    const Range queries = partition(step.rows * op_.heads, 1, worker, workers);
    for (std::int64_t item = queries.first; item < queries.last; ++item)
      prefetch_floats(query_in(step, item / op_.heads, static_cast<int>(item % op_.heads), worker),
                      op_.head_dim);
    for (std::int64_t item = queries.first; item < queries.last; ++item)
      prepare_query(step, item / op_.heads, static_cast<int>(item % op_.heads), worker);
    if (op_.shared) return;
    const std::int64_t slices = (op_.head_dim + kSliceDims - 1) / kSliceDims;
    std::int64_t first_row = 0;
    for (const Segment& segment : step.args->segments) {
      const Range range = partition(slices * op_.kv_heads, 1, workers - 1 - worker, workers);
      for (std::int64_t item = range.first; item < range.last; ++item) {
        const auto head = static_cast<int>(item / slices);
        const auto first = static_cast<int>(item % slices * kSliceDims);
        const Dims dims{first, std::min(op_.head_dim, first + kSliceDims)};
        for (std::int64_t r = first_row; r < first_row + segment.rows; ++r)
          prefetch_floats(step.of(k_, worker).row(r) + std::int64_t{head} * op_.head_dim, op_.head_dim);
        for (std::int64_t r = 0; r < segment.rows; ++r)
          append({step, segment, first_row + r, segment.position + r, head, worker}, dims);
      }
      first_row += segment.rows;
    }
  }

  float* query(std::int64_t row, int head) const { return query_ + (row * op_.heads + head) * op_.head_dim; }

  const float* query_in(const Step& step, std::int64_t row, int head, int worker) const {
    const std::int64_t stride = op_.gated ? 2 * op_.head_dim : op_.head_dim;
    return step.of(q_, worker).row(row) + head * stride;
  }
  void prepare_query(const Step& step, std::int64_t row, int head, int worker) const {
    float* const out = query(row, head);
    prepare_head(step, q_norm_, query_in(step, row, head, worker), row, out);
    if (op_.gains.empty()) return;
    const float gain = op_.gain_at(step.positions[row]);
    for (int d = 0; d < op_.head_dim; ++d) out[d] *= gain;
  }

  void prepare_head(const Step& step, const std::vector<float>& norm, const float* in, std::int64_t row,
                    float* out) const {
    if (norm.empty()) {
      std::memcpy(out, in, static_cast<std::size_t>(op_.head_dim) * sizeof(float));
    } else {
      step.kernels->rms_norm(in, norm.data(), op_.head_dim, op_.eps, out);
    }
    const int half = op_.rotary / 2;
    if (half == 0) return;
    const float* cosines = rotary_->cosines.data() + row * half;
    const float* sines = rotary_->sines.data() + row * half;
    for (int j = 0; j < half; ++j) {
      const float a = out[j];
      const float b = out[j + half];
      out[j] = a * cosines[j] - b * sines[j];
      out[j + half] = b * cosines[j] + a * sines[j];
    }
  }

  /// A row of one key/value head for the cache.
  struct Append {
    const Step& step;
    const Segment& segment;
    std::int64_t row, position;
    int head, worker;
  };
  /// Dimensions [first, last) of a head.
  struct Dims {
    int first, last;
  };
  Dims all() const { return {0, op_.head_dim}; }

  void append(const Append& of, Dims dims) const {
    const auto& [step, segment, row, position, head, worker] = of;
    const CpuState::Cache& cache = step.state->cache(op_.cache);
    const std::int64_t block = segment.sequence.blocks[static_cast<std::size_t>(position / kBlockRows)];
    std::byte* keys = cache.keys + block * cache.block_stride + head * cache.head_stride;
    std::byte* values = keys + cache.keys_bytes;
    const std::int64_t place = position % kBlockRows;
    const std::int64_t column = static_cast<std::int64_t>(head) * op_.head_dim;
    float* scratch = worker_scratch_ + worker * worker_floats_;
    prepare_head(step, k_norm_, step.of(k_, worker).row(row) + column, row, scratch);
    if (cache.bits == 8) {
      store_codes(step, scratch, scratch + cache.padded, {keys, kBlockRows, 1, place}, dims);
    } else {
      auto* halves = reinterpret_cast<std::uint16_t*>(keys) + place;
      for (int d = dims.first; d < dims.last; ++d) halves[d * kBlockRows] = saturated_f16(scratch[d]);
    }
    const float* value = step.of(v_, worker).row(row) + column;
    if (!v_norm_.empty()) {
      step.kernels->rms_norm(value, v_norm_.data(), op_.head_dim, op_.eps, scratch);
      value = scratch;
    }
    if (cache.bits == 8) {
      store_codes(step, value, scratch + cache.padded, {values, 1, cache.padded, place}, dims);
    } else {
      auto* halves = reinterpret_cast<std::uint16_t*>(values) + place * cache.padded;
      for (int d = dims.first; d < dims.last; ++d) halves[d] = saturated_f16(value[d]);
    }
  }

  /// A position's codes in a block: dim d is at place * row_stride + d * dim_stride. The scale follows all
  /// codes of the block.
  struct CodesPlace {
    std::byte* block;
    std::int64_t dim_stride, row_stride, place;
  };
  /// Writes some dims of a row as codes; the worker with the first dim also writes the scale.
  void store_codes(const Step& step, const float* row, float* scratch, const CodesPlace& at,
                   Dims dims) const {
    const auto padded = static_cast<int>(round_up(op_.head_dim, kLanes));
    std::memset(scratch, 0, static_cast<std::size_t>(padded) * sizeof(float));
    std::memcpy(scratch, row, static_cast<std::size_t>(op_.head_dim) * sizeof(float));
    auto* codes = reinterpret_cast<std::int8_t*>(scratch + padded);
    float scale = 0;
    float sum = 0;
    step.kernels->quantise(
        {.in = scratch, .group = padded, .groups = 1, .codes = codes, .scales = &scale, .sums = &sum});
    auto* out = reinterpret_cast<std::int8_t*>(at.block) + at.place * at.row_stride;
    for (int d = dims.first; d < dims.last; ++d) out[d * at.dim_stride] = codes[d];
    if (dims.first > 0) return;
    const std::int64_t codes_bytes = kBlockRows * (at.row_stride == 1 ? op_.head_dim : at.row_stride);
    reinterpret_cast<float*>(at.block + codes_bytes)[at.place] = scale;
  }

  /// True if one segment's few key/value heads would leave workers idle.
  bool shares_heads(const Step& step, const Segment& segment, int workers) const {
    const auto streams = static_cast<int>(step.args->segments.size());
    return step.small_batch && has_few_heads(op_, workers) && 2 * streams * op_.kv_heads <= workers &&
           segment.rows * (op_.heads / op_.kv_heads) <= kQueryTile &&
           segment.position + segment.rows >= kMinShared;
  }

  AttendShare share(AttendArgs of, int kv_head) const {
    AttendShare share;
    share.of = of;
    share.weights = shared_ + kv_head * share_floats(op_);
    share.tops = share.weights + std::int64_t{kQueryTile} * kSharePositions;
    share.factors = share.tops + kQueryTile * kShareBlocks;
    share.sums = share.factors + kQueryTile * kShareBlocks;
    share.top = share.sums + kQueryTile * kShareBlocks;
    share.total = share.top + kQueryTile * kLanes;
    share.mass = share.total + std::int64_t{kQueryTile} * of.padded;
    return share;
  }

  /// All workers together process every key/value head: blocks of positions, then columns of the values.
  void run_shared(const Step& step, const Segment& segment, std::int64_t first_row, int worker,
                  int workers) const {
    const Kernels& kernels = *step.kernels;
    const std::int64_t queries = std::int64_t{segment.rows} * (op_.heads / op_.kv_heads);
    const std::int64_t first = first_position(segment.position) / kKeyRows;
    const std::int64_t end = (segment.position + segment.rows - 1) / kKeyRows + 1;
    for (std::int64_t block = first; block < end; block += kShareBlocks) {
      const std::int64_t blocks = std::min<std::int64_t>(kShareBlocks, end - block);
      const bool last = block + blocks == end && first_row + segment.rows == step.rows;
      const auto part = [&](std::int64_t items, bool meet, const auto& work) {  // of each key/value head
        const Range range = partition(items * op_.kv_heads, 1, worker, workers);
        for (int head = 0; head < op_.kv_heads; ++head) {
          const auto from = static_cast<int>(std::clamp<std::int64_t>(range.first - head * items, 0, items));
          const auto to = static_cast<int>(std::clamp<std::int64_t>(range.last - head * items, 0, items));
          if (from == to) continue;
          AttendShare own = share(arguments(step, segment, first_row, head, 0, queries, worker), head);
          own.first_block = block, own.blocks = blocks;
          own.begins = block == first, own.ends = block + blocks == end;
          work(own, from, to);
        }
        if (meet) step.barrier(worker);
      };
      part(blocks, true, [&](const AttendShare& own, int from, int to) {
        for (int q = 0; q < own.of.queries; ++q) prefetch_floats(own.of.query[q], op_.head_dim);
        kernels.attend_scores(own, from, to);
      });
      part(blocks, true,
           [&](const AttendShare& own, int from, int to) { kernels.attend_weights(own, from, to); });
      const std::int64_t pieces = (round_up(op_.head_dim, kLanes) + kShareColumns - 1) / kShareColumns;
      // The last part needs no barrier: the next operation begins with one.
      part(pieces, !last, [&](const AttendShare& own, int from, int to) {
        for (int index = from; index < to; ++index) kernels.attend_sums(own, index);
      });
    }
  }

  /// The first position that a row at `position` sees.
  std::int64_t first_position(std::int64_t position) const {
    return op_.sliding_window > 0 ? std::max<std::int64_t>(0, position + 1 - op_.sliding_window) : 0;
  }

  /// Queries [first, last) of one key/value head. Query i is row i / group and attention head i % group of
  /// the key/value head's group.
  AttendArgs arguments(const Step& step, const Segment& segment, std::int64_t first_row, int kv_head,
                       std::int64_t first, std::int64_t last, int worker) const {
    const CpuState::Cache& cache = step.state->cache(op_.cache);
    const int group = op_.heads / op_.kv_heads;
    AttendArgs args;
    args.bits = cache.bits;
    args.keys = cache.keys + kv_head * cache.head_stride;
    args.values = args.keys + cache.keys_bytes;
    args.block_stride = cache.block_stride;
    args.blocks = segment.sequence.blocks.data();
    args.head_dim = op_.head_dim;
    args.padded = cache.padded;
    args.scale = op_.scale;
    args.queries = static_cast<int>(last - first);
    args.has_sinks = !sinks_.empty();
    args.scratch = worker_scratch_ + worker * worker_floats_;
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t r = i / group;
      const auto head = static_cast<int>(kv_head * group + i % group);
      const std::int64_t at = i - first;
      args.query[at] = query(first_row + r, head);
      if (args.has_sinks) args.sink[at] = sinks_[static_cast<std::size_t>(head)];
      args.position[at] = op_.causal ? segment.position + r : segment.position + segment.rows - 1;
      args.first[at] = first_position(segment.position + r);
      if (op_.gated)
        args.gate[at] =
            step.of(q_, worker).row(first_row + r) + static_cast<std::int64_t>(2 * head + 1) * op_.head_dim;
      args.out[at] = out_.row(first_row + r) + static_cast<std::int64_t>(head) * op_.head_dim;
    }
    return args;
  }
  void attend(const Step& step, const Segment& segment, std::int64_t first_row, int kv_head,
              std::int64_t first, std::int64_t last, int worker) const {
    step.kernels->attend(arguments(step, segment, first_row, kv_head, first, last, worker));
  }

  Attention op_;
  Matrix q_, k_, v_, out_;
  const Rotary* rotary_;
  float* query_;   // [max_rows, heads, head_dim] normalised and rotated
  float* shared_;  // [kv_heads, share_floats()] if there are few heads
  float* worker_scratch_;
  std::int64_t worker_floats_;
  std::vector<float> q_norm_, k_norm_, v_norm_;
  std::vector<float> sinks_;  // [heads], or empty
};

}  // namespace

Needs needs(const Attention& op, const BuildContext& context) {
  const std::int64_t shared = has_few_heads(op, context.workers) ? op.kv_heads * share_floats(op) : 0;
  return {(static_cast<std::int64_t>(context.options.max_rows) * op.heads * op.head_dim + shared) *
              static_cast<std::int64_t>(sizeof(float)),
          attend_floats(round_up(op.head_dim, kLanes))};
}

std::unique_ptr<Operation> make_rotary(Rotary& rotary) { return std::make_unique<RotaryOp>(rotary); }

std::unique_ptr<Operation> make(const Attention& op, const BuildContext& context) {
  return std::make_unique<AttendOp>(op, context);
}

}  // namespace ft::cpu
