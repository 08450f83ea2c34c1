#include "backends/metal/backend.h"

#include <fmt/format.h>
#include <map>

#include "backends/metal/device.h"
#include "backends/metal/device_check.h"
#include "backends/metal/executable.h"
#include "backends/metal/rows.h"
#include "backends/precision_flags.h"
#include "format/out_of_memory.h"

namespace ft {
namespace {

constexpr int kMaxHeadDim = 512, kMaxGroup = 32;

/// The feature of an instruction that the kernels lack; empty: none.
struct Lacks {
  std::string operator()(const Attention& op) const {
    if (op.head_dim > kMaxHeadDim)
      return fmt::format("heads of {} dimensions; it takes at most {}", op.head_dim, kMaxHeadDim);
    if (op.heads / op.kv_heads > kMaxGroup)
      return fmt::format("{} query heads for a key head; it takes at most {}", op.heads / op.kv_heads,
                         kMaxGroup);
    if (!op.sinks.empty()) return "attention sinks, for which it has no kernel";
    if (!op.gains.empty()) return "queries with a gain by position, for which it has no kernel";
    return {};
  }
  std::string operator()(const MoeMlp& op) const {
    if (op.biased()) return "experts with biases, for which it has no kernel";
    if (op.activation == Activation::kClampedSwiglu)
      return "experts with a clamped activation, for which it has no kernel";
    return {};
  }
  std::string operator()(const LocalConv&) const { return "a local convolution"; }
  std::string operator()(const ClusterLogits&) const { return "logits by cluster"; }
  std::string operator()(const Walk&) const { return "a walk over candidates"; }
  std::string operator()(const DeltaRule& op) const {
    if (metal::keys_of_lane(op.key_dim) > 0) return {};
    return fmt::format("keys of {} dimensions in a delta rule; it takes at most 256", op.key_dim);
  }
  template <class Op>
  std::string operator()(const Op&) const {
    return {};
  }
};

class MetalBackend final : public Backend {
 public:
  /// `tests`: asks the device about the kernels of each program before it takes it.
  MetalBackend(std::shared_ptr<metal::Device> device, std::shared_ptr<metal::RoundTokens> round, int kv_bits,
               PackedCacheOptions packed_cache, bool tests)
      : device_(std::move(device)),
        round_(std::move(round)),
        kv_bits_(kv_bits),
        packed_cache_(std::move(packed_cache)),
        tests_(tests) {}
  std::string_view name() const override { return device_->name(); }
  std::string describe() const override {
    return device_->describe() + (kv_bits_ == 8 ? ", 8-bit keys and values" : "");
  }
  Limits limits(const StateLayout& layout) const override {
    const metal::StatePlan plan(layout, kv_bits_);
    Limits limits;
    limits.block_bytes = std::int64_t{plan.block_halves} * 2;
    limits.slot_bytes = std::int64_t{plan.slot_floats} * 4;
    limits.memory_bytes = device_->memory_bytes();
    return limits;
  }
  Status check_supported(const Program& program) const override {
    for (const Instruction& instruction : program.instructions()) {
      const std::string problem = std::visit(Lacks{}, instruction);
      if (problem.empty()) continue;
      return Error{Code::kUnsupported,
                   fmt::format("{} backend: the model has {}; use --backend cpu", name(), problem)};
    }
    if (!tests_) return {};
    const std::string text = to_text(program);
    const auto known = tested_.find(text);
    if (known != tested_.end()) return known->second;
    return tested_[text] = metal::self_test(device_, metal::shapes_of(program), kv_bits_);
  }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    FT_TRY(check_supported(program));
    return metal::compile(device_, program, options, packed_cache_, round_);
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    return metal::MetalState::make(device_, layout, options, kv_bits_);
  }
  Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) override {
    return metal::MetalRows::make(device_, width, capacity);
  }

 private:
  std::shared_ptr<metal::Device> device_;
  std::shared_ptr<metal::RoundTokens> round_;
  int kv_bits_;
  PackedCacheOptions packed_cache_;
  bool tests_;
  mutable std::map<std::string, Status> tested_;  // by the program's text
};

}  // namespace

namespace metal {
namespace {

Result<std::unique_ptr<Backend>> make_metal(std::shared_ptr<Device> device, int kv_bits,
                                            const PackedCacheOptions& packed_cache, bool tests) {
  if (kv_bits != 8 && kv_bits != 16) {
    return Error{Code::kInvalid,
                 fmt::format("metal backend: keys and values of {} bits; use 8 or 16", kv_bits)};
  }
  FT_ASSIGN(std::shared_ptr<RoundTokens> round, RoundTokens::make(device));
  return std::unique_ptr<Backend>(
      std::make_unique<MetalBackend>(std::move(device), std::move(round), kv_bits, packed_cache, tests));
}

}  // namespace

Result<std::unique_ptr<Backend>> make_backend_on(std::shared_ptr<Device> device, int kv_bits,
                                                 const PackedCacheOptions& packed_cache) {
  return make_metal(std::move(device), kv_bits, packed_cache, false);
}

Result<std::unique_ptr<Backend>> make_tested_backend(std::shared_ptr<Device> device,
                                                     const BackendOptions& options) {
  FT_TRY(self_test(device));
  return make_metal(std::move(device), kv_bits(options.settings), options.packed_cache, true);
}

}  // namespace metal

BackendKind metal_backend() { return {"metal", {kv_bits_flag()}, make_metal_backend}; }

BackendKind metal_twin_backend() { return {"metal-twin", {kv_bits_flag()}, make_metal_twin_backend}; }

Result<std::unique_ptr<Backend>> make_metal_backend(const BackendOptions& options) {
  FT_ASSIGN(std::shared_ptr<metal::Device> device, metal::open_metal_device(options.kernel_folder));
  return metal::make_tested_backend(std::move(device), options);
}

Result<std::unique_ptr<Backend>> make_metal_twin_backend(const BackendOptions& options) {
  return metal::make_backend_on(metal::open_twin_device(), kv_bits(options.settings), options.packed_cache);
}

}  // namespace ft
