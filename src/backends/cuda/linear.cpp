// Linears: which kernel multiplies, by format, group and number of rows, and when rows become codes first.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unordered_set>
#include <utility>

#include "backends/cuda/executable.h"

namespace ft::cuda {

const char* kernel_name(std::string name) {
  static std::unordered_set<std::string> names;
  return names.insert(std::move(name)).first->c_str();
}

namespace {

/// Shared memory of a block of the streaming linear (kernels/hopper_linear.cu).
int stream_bytes(const LinearArgs& args, int columns, int chunk, int stages) {
  const int k = args.groups * 64, record = 576;
  return stages * chunk * 8 * record + args.rows * (k + 64) + columns * k + 2 * 8 * 512 * columns +
         8 * (2 * stages + 5);
}

constexpr int kGemmFrom = 32;             // more rows than this suit the kernel for prompts,
constexpr int kGemmTiles = 8;             // whose blocks have eight tiles (kernels/gemm.cu)
constexpr int kMaxProducerFloats = 8192;  // that each block reads to make codes
constexpr int kStreamBytes = 180 << 10;   // of the shared memory of an SM, where four stages fit in it

/// The streaming linear of up to `rows` rows. `even`: its slices of K are equal.
const char* stream_name(int rows, int chunk, bool even) {
  static const auto names = [] {
    std::array<std::array<std::array<const char*, 2>, 7>, 17> all{};
    for (const int r : {2, 4, 8, 16}) {
      for (const int c : {2, 4, 5, 6}) {
        all[r][c] = {kernel_name(fmt::format("stream_uneven_{}_{}", r, c)),
                     kernel_name(fmt::format("stream_{}_{}", r, c))};
      }
    }
    return all;
  }();
  return names[static_cast<std::size_t>(rows)][static_cast<std::size_t>(chunk)][even ? 1 : 0];
}

/// At most 16 rows; false if they do not fit. `producer`: of codes that are not in memory.
bool launch_pass(Device& device, const LinearArgs& args, const FusedProducer& producer) {
  const int columns = args.rows <= 8 ? 1 : 2, of_slice = slice_groups(args.groups),
            chunk = piece_groups(of_slice);
  constexpr int kMaxStages = 12, kEarlyOfFew = 5, kEarlyOfMany = 3;
  const int blocks = std::min(args.tiles, device.facts().processors);
  // Not all that a block will read: x would wait for it.
  const int half = parts_of(args.tiles, blocks) * parts_of(of_slice, chunk) / 2;
  StreamArgs stream{args, producer, 0, std::clamp(half, 1, args.rows <= 2 ? kEarlyOfFew : kEarlyOfMany)};
  const auto bytes_at = [&](int stages) { return stream_bytes(args, columns, chunk, stages); };
  // Enough in flight, and room for the blocks of the small kernels after it, which so begin early.
  while (stream.stages < kMaxStages && bytes_at(stream.stages + 1) <= device.facts().shared_bytes &&
         (stream.stages < 4 || bytes_at(stream.stages + 1) <= kStreamBytes))
    ++stream.stages;
  if (stream.stages < 2) return false;
  const int rows = args.rows <= 2 ? 2 : args.rows <= 4 ? 4 : args.rows <= 8 ? 8 : 16;
  device.launch({stream_name(rows, chunk, args.groups % kSplitK == 0),
                 {blocks},
                 320,
                 stream_bytes(args, columns, chunk, stream.stages)},
                &stream);
  return true;
}

/// The linear of 9 to 64 rows at the memory's speed (kernels/hopper_rows.cu); false if it does not suit.
bool launch_splitk_cluster_gemm(Device& device, const LinearArgs& args) {
  constexpr int kThreads = 352, kSums = 3, kChunk = 3, kRecord = 576, kMaxStages = 12, kMinStages = 3;
  constexpr int kEarly = 3, kMaxColumns = 8, kRoom = 200 << 10;
  int columns = std::max(2, parts_of(args.rows, 8));
  if (columns > kMaxColumns) return false;
  if (columns > 4) columns = columns <= 6 ? 6 : 8;
  if (args.groups < kSplitK) return false;
  const int groups = slice_groups(args.groups), stage = 8 * (columns <= 4 ? 2 : 1) * kChunk * kRecord;
  const int fixed = args.rows * (groups * 64 + (groups % 2 == 0 ? 64 : 0)) + columns * groups * 64 +
                    kSums * kSplitK * columns * 512 + 8 * (2 * kSums + 1);
  const int room = std::min(device.facts().shared_bytes, std::max(kRoom, fixed + 4 * (stage + 16)));
  const int stages = std::min(kMaxStages, (room - fixed) / (stage + 16));
  if (stages < kMinStages) return false;
  Launch launch{kernel_name(fmt::format("splitk_cluster_gemm_{}", columns)),
                {kSplitK},
                kThreads,
                fixed + stages * (stage + 16)};
  const int clusters = std::min(device.clusters(launch), parts_of(args.tiles, 8));
  if (clusters == 0) return false;
  const SplitKGemmArgs rows{args, stages, kEarly};
  launch.grid.x = clusters * kSplitK;
  device.launch(launch, &rows);
  return true;
}

/// Rows `first` and later of a linear, `rows` of them; `first` counts whole columns of eight.
LinearArgs rows_from(LinearArgs args, int first, int rows) {
  const std::ptrdiff_t k = args.groups * 64;
  args.codes += first * k;
  args.scales += first / 8 * (k / 4);
  args.out.data += static_cast<std::ptrdiff_t>(first) * args.out.stride;
  if (args.residual.data != nullptr)
    args.residual.data += static_cast<std::ptrdiff_t>(first) * args.residual.stride;
  args.rows = rows;
  return args;
}

/// The linear of many rows: blocks of 128 rows if they give every SM work, else of 64.
void launch_gemm(Device& device, const LinearArgs& args, const WeightKind& kind) {
  constexpr int kMaxStages = 4, kBlocksOfAnSm = 2, kReserved = 1 << 10;
  const int heights = parts_of(args.tiles, kGemmTiles);
  const bool large =
      kind.bits == 4 && !kind.wide && parts_of(args.rows, 128) * heights >= device.facts().processors;
  const int rows = large ? 128 : 64;
  const int sums = kGemmTiles * kTileOutputs * rows * 4;
  const int stage = kGemmTiles * (128 * kind.bits + (kind.wide ? 128 : 64)) + rows * 64 + rows / 8 * 64;
  const int room = device.facts().shared_bytes / kBlocksOfAnSm - kReserved - sums;
  const GemmArgs gemm{args, std::clamp(room / stage, 2, kMaxStages)};
  device.launch({kernel_name(fmt::format("gemm_{}_{}_{}", kind.bits, kind.wide ? 1 : 0, rows / 16)),
                 {parts_of(args.rows, rows), heights},
                 256,
                 sums + gemm.stages * stage},
                &gemm);
}

/// Shared memory of a block of kernels/sm90_gemm.cu: sums of its 256 outputs, stages, two barriers for each.
int async_bytes(int rows) {
  constexpr int kThreads = 256, kTiles = 16, kRecord = 576, kMaxStages = 8, kRoom = 226 << 10;
  const int sums = kThreads * rows * 4, stage = rows * 72 + kTiles * kRecord;
  const int stages = std::min(kMaxStages, (kRoom - sums) / stage);
  return sums + stages * (stage + 16);
}

/// Rows of a block that end the product first: 64, 80 or 96; 0: too few blocks for the SMs.
int async_rows(int rows, int tiles, int processors) {
  constexpr int kTiles = 16;
  constexpr std::pair<int, int> kCosts[] = {{64, 76}, {80, 85}, {kMaxAsyncRows, 111}};  // of a group: 10 ns
  int best = 0, best_cost = 0;
  for (const auto& [height, group_cost] : kCosts) {
    const int blocks = parts_of(rows, height) * parts_of(tiles, kTiles);
    const int cost = parts_of(blocks, processors) * group_cost;
    if (blocks < processors * 3 / 4 || (best > 0 && cost >= best_cost)) continue;
    best = height, best_cost = cost;
  }
  return best;
}

}  // namespace

/// The codes of the step's rows in blocks of `height` rows, group by group.
const unsigned char* CudaExecutable::swizzle(const LinearArgs& args, int height) {
  auto* const swizzled = swizzled_.at<unsigned char>();
  const SwizzleArgs rows{args.codes, args.scales, swizzled, args.rows, args.groups, height};
  const int whole = static_cast<int>(round_up(args.rows, height));
  device_->launch({"swizzle_activations", {parts_of(args.groups, 4), parts_of(whole, 64)}, 256}, &rows);
  return swizzled;
}

/// The linear of few rows at the memory's speed: with the codes of all rows in shared memory, or, of up to 32
/// rows, with pieces of them; false if it does not suit.
bool CudaExecutable::launch_stream(const LinearArgs& args, const FusedProducer& producer) {
  if (args.rows <= 16 && launch_pass(*device_, args, producer)) return true;
  if (launch_splitk_cluster_gemm(*device_, args)) return true;
  constexpr int kHalf = 32;  // rows that fit where 64 do not
  if (args.rows <= kHalf || args.rows > 2 * kHalf) return false;
  return launch_splitk_cluster_gemm(*device_, rows_from(args, 0, kHalf)) &&
         launch_splitk_cluster_gemm(*device_, rows_from(args, kHalf, args.rows - kHalf));
}

/// The linear of many rows by Hopper's asynchronous matrix instruction; false if it does not suit.
bool CudaExecutable::launch_async(const LinearArgs& args) {
  constexpr int kTiles = 16, kThreads = 384;
  const int height = async_rows(args.rows, args.tiles, device_->facts().processors);
  if (height == 0 || async_bytes(height) > device_->facts().shared_bytes) return false;
  const int blocks = parts_of(args.rows, height);
  const AsyncGemmArgs gemm{args, swizzle(args, height)};
  device_->launch({kernel_name(fmt::format("async_gemm_{}", height)),
                   {std::min(blocks * parts_of(args.tiles, kTiles), device_->facts().processors)},
                   kThreads,
                   async_bytes(height)},
                  &gemm);
  return true;
}

bool CudaExecutable::streams(const WeightKind& kind) const {
  return device_->facts().streams && kind == kStreamedKind;
}

/// Whether a linear makes the codes of a step's rows itself, so that their own kernel has nothing to do.
bool CudaExecutable::makes_codes(const FusedProducer& producer, int rows, int cols) {
  if (producer.kind == kFromCodes || rows > kProducerRows) return false;
  return rows * cols <= kMaxProducerFloats;
}

/// What the linear after the instruction that is being made may take in place of codes: if it is one product
/// and nobody else reads the row.
void CudaExecutable::offer_producer(Row out, const FusedProducer& producer) {
  producer_ = {}, producer_row_ = -1;
  const auto next = static_cast<std::size_t>(number_) + 1;
  if (!codes_suffice(out, 64)) return;
  const auto& linear = std::get<Linear>(program_->instructions()[next]);
  for (const Weight& stored : linear.weights) {
    const auto kind = kind_of(requantised_as(stored, program_->max_weight_bits()));
    if (!kind.ok() || !streams(*kind)) return;
  }
  producer_ = producer, producer_row_ = out.id;
}

/// Codes of the rows where they are not there yet. `instead`: what the product makes them from if it can.
void CudaExecutable::add_codes(View in, int row_id, int cols, int group, bool logit_rows,
                               const FusedProducer& instead) {
  if (!logit_rows && codes_row_ == row_id && codes_group_ == group) return;
  codes_row_ = logit_rows || instead.kind != kFromCodes ? -1 : row_id, codes_group_ = group;
  QuantiseArgs args{in, nullptr, {codes_.at<signed char>(), code_scales_.at<float>(), cols, group}};
  operations_.emplace_back([this, args, instead, logit_rows](const StepShape& shape, const Places&) mutable {
    if (logit_rows) args.rows = step_.table(shape).logit_rows;
    const int rows = logit_rows ? shape.logit_rows : shape.rows;
    if (rows == 0 || makes_codes(instead, rows, args.out.k)) return;
    device_->launch({"quantise", {parts_of(args.out.k, 2048), rows}, 128}, &args);
  });
}

void CudaExecutable::add_plain_product(const Product& product) {
  const PackedMatrix& matrix = *product.matrix;
  PlainLinearArgs args{};
  args.weights = matrix.memory.at();
  args.wide = matrix.kind.wide ? 1 : 0;
  args.k = static_cast<int>(matrix.cols), args.padded = static_cast<int>(matrix.padded);
  args.in = product.in, args.out = product.out, args.residual = product.residual;
  args.outputs = product.outputs;
  if (product.also != nullptr) {
    args.also = {product.also->memory.at(), product.also_out, static_cast<int>(product.also->outputs)};
    packed_.push_back(product.also);
  }
  const int outputs = args.outputs + args.also.outputs;
  args.block_outputs = outputs < 16 * device_->facts().processors ? 2 : 8;  // a router has work for all SMs
  const bool logit_rows = product.logit_rows;
  operations_.emplace_back([this, args, outputs, logit_rows](const StepShape& shape, const Places&) mutable {
    args.rows = logit_rows ? shape.logit_rows : shape.rows;
    args.row_list = logit_rows ? step_.table(shape).logit_rows : nullptr;
    if (args.rows == 0) return;
    const int rows = args.rows == 1 ? 1 : 4;
    device_->launch({rows == 1 ? "linear_plain_1" : "linear_plain_4",
                     {parts_of(outputs, args.block_outputs), parts_of(args.rows, rows)},
                     32 * args.block_outputs},
                    &args);
  });
}

void CudaExecutable::add_product(const Product& product, int row_id) {
  const PackedMatrix& matrix = *product.matrix;
  if (std::ranges::find(packed_, product.matrix) == packed_.end()) packed_.push_back(product.matrix);
  const WeightKind kind = matrix.kind;
  if (kind.bits == 0) return add_plain_product(product);
  const bool there = codes_row_ == row_id && codes_group_ == kind.group, streamed = streams(kind);
  FusedProducer producer{};
  if (there && row_id == producer_row_) producer = producer_;
  if (!there && streamed && !product.logit_rows) producer = {kFromRows, product.in, nullptr, 0};
  if (product.logit_rows) producer = {};
  add_codes(product.in, row_id, static_cast<int>(matrix.cols), kind.group, product.logit_rows, producer);
  LinearArgs args{};
  args.records = matrix.memory.at<unsigned char>();
  args.codes = codes_.at<signed char>();
  args.scales = code_scales_.at<float>();
  args.out = product.out, args.residual = product.residual;
  args.tiles = parts_of(product.outputs, kTileOutputs);
  args.groups = matrix.groups();
  args.outputs = product.outputs;
  const bool logit_rows = product.logit_rows;
  const auto name = [&](int columns) {
    return kernel_name(fmt::format("linear_{}_{}_{}_{}", kind.bits, kind.group, kind.wide ? 1 : 0, columns));
  };
  const char *one_column = name(1), *many = name(4);
  operations_.emplace_back([=, this](const StepShape& shape, const Places&) mutable {
    args.rows = logit_rows ? shape.logit_rows : shape.rows;
    if (args.rows == 0) return;
    const bool makes = makes_codes(producer, args.rows, args.groups * 64);
    if (streamed && launch_stream(args, makes ? producer : FusedProducer{})) return;
    if (device_->facts().async_products && kind == kStreamedKind && launch_async(args)) return;
    if (kind.group == 64 && args.rows > kGemmFrom) return launch_gemm(*device_, args, kind);
    const bool one = args.rows <= 8;
    device_->launch({one ? one_column : many, {args.tiles, one ? 1 : parts_of(args.rows, 32)}, 256}, &args);
  });
}

/// Matrices of one kind that lie side by side are one product.
Result<std::vector<CudaExecutable::Product>> CudaExecutable::products_of(const Linear& op) {
  const Add* const sum = plan_->sum_of(number_);
  std::vector<Weight> all;
  for (const Weight& weight : op.weights)
    all.push_back(weights_->reduced(weight, program_->max_weight_bits()));
  std::vector<Product> products;
  for (std::size_t first = 0; first < all.size();) {
    FT_ASSIGN(const WeightKind kind, kind_of(all[first]));
    std::vector<const Weight*> weights;
    std::size_t last = first;
    for (; last < all.size(); ++last) {
      FT_ASSIGN(const WeightKind other, kind_of(all[last]));
      if (!(other == kind)) break;
      weights.push_back(&all[last]);
    }
    Product product;
    FT_ASSIGN(product.matrix, weights_->matrix(weights));
    product.in = view(op.in);
    product.out = view(sum != nullptr ? sum->out : op.outs[first]);
    if (sum != nullptr) product.residual = view(sum->a.id == op.outs[0].id ? sum->b : sum->a);
    product.outputs = static_cast<int>(sum != nullptr ? all[first].rows : product.matrix->outputs);
    product.first_weight = static_cast<int>(first);
    products.push_back(std::move(product));
    first = last;
  }
  return products;
}

Status CudaExecutable::make(const Linear& op) {
  const auto mixture = std::ranges::find(mixtures_, number_, &Mixture::linear);
  FT_ASSIGN(std::vector<Product> products, products_of(op));
  const auto plain_after = [&](std::size_t i) {
    return std::find_if(products.begin() + static_cast<std::ptrdiff_t>(i) + 1, products.end(),
                        [&](const Product& other) { return other.matrix->kind == products[i].matrix->kind; });
  };
  for (std::size_t i = 0; i < products.size(); ++i) {
    Product& product = products[i];
    if (product.matrix->kind.bits == 0) {
      if (const auto also = plain_after(i); also != products.end()) {  // one launch for both
        product.also = also->matrix, product.also_out = also->out;
        products.erase(also);
      }
    }
    add_product(products[i], op.in.id);
    if (mixture != mixtures_.end() && products[i].first_weight == mixture->first_weight)
      leave_to_mixture(operations_.size() - 1, *mixture);  // the product, not its codes
  }
  if (mixture != mixtures_.end()) mixture_codes_there_ = codes_row_ == op.in.id && codes_group_ == 64;
  return {};
}

}  // namespace ft::cuda
