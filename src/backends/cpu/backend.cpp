#include "backends/cpu/backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>

#include "backends/cpu/executable.h"
#include "backends/cpu/kernels/features.h"
#include "backends/host_rows.h"
#include "backends/precision_flags.h"
#include "base/topology.h"
#include "format/out_of_memory.h"

namespace ft {
namespace {

constexpr int kMaxThreads = 512;
constexpr int kDefaultActivationBits = 8;  // its effect: docs/decisions/004-eight-bit-activations.md
constexpr const char* kIsa = "isa";

class CpuBackend final : public Backend {
 public:
  CpuBackend(const cpu::Kernels& kernels, const BackendOptions& options)
      : kernels_(kernels),
        activation_bits_(activation_bits(options.settings)),
        kv_bits_(kv_bits(options.settings)),
        packed_cache_(options.packed_cache),
        progress_(options.progress),
        forced_(options.threads > 0),
        pool_(options.threads),
        small_batch_workers_(pool_.workers()) {
    if (activation_bits_ == 0) activation_bits_ = kDefaultActivationBits;
  }

  std::string_view name() const override { return "cpu"; }
  std::string describe() const override {
    return fmt::format("{}, {} thread{}", choices(), pool_.workers(), pool_.workers() == 1 ? "" : "s");
  }
  // The bits of bf16 weights also depend on this: earlier versions added column after column.
  std::string arithmetic() const override { return choices() + ", bf16 weights in pairs"; }
  std::vector<int> worker_choices() const override {
    return forced_ ? std::vector<int>() : cpu::worker_choices(pool_.workers());
  }
  void use_workers(int workers) override {
    small_batch_workers_ = workers > 0 ? std::min(workers, pool_.workers()) : pool_.workers();
  }
  Limits limits(const StateLayout& layout) const override { return cpu::CpuState::limits(layout, kv_bits_); }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    return cpu::compile(program, options,
                        {pool_, kernels_, activation_bits_, packed_cache_, progress_, weights_,
                         small_batch_workers_, memory_nodes_});
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    return cpu::CpuState::make(layout, options, kv_bits_);
  }
  Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) override {
    return HostRows::make(width, capacity, "cpu backend");
  }
  Result<std::unique_ptr<RowBorder>> make_border(int width, int capacity) override {
    return HostBorder::make(width, capacity, "cpu backend");
  }

 private:
  std::string choices() const {
    return fmt::format("cpu, {}, {}-bit activations{}", kernels_.name, activation_bits_,
                       kv_bits_ == 8 ? ", 8-bit keys and values" : "");
  }

  const cpu::Kernels& kernels_;
  int activation_bits_;
  int kv_bits_;
  PackedCacheOptions packed_cache_;
  PackProgress progress_;
  std::shared_ptr<cpu::SharedWeights> weights_ = std::make_shared<cpu::SharedWeights>();
  bool forced_;  // the number of workers, by the caller
  ThreadPool pool_;
  int small_batch_workers_;
  int memory_nodes_ = memory_nodes(worker_cores());
};

Result<std::unique_ptr<Backend>> start(const BackendOptions& options) {
  if (options.threads < 0 || options.threads > kMaxThreads) {
    return Error{Code::kInvalid, fmt::format("cpu backend: {} threads; use 1 to {}, or 0 for one per core",
                                             options.threads, kMaxThreads)};
  }
  FT_ASSIGN(const cpu::Kernels* kernels, cpu::choose_kernels(options.settings.value(kIsa, "auto")));
  try {
    return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(*kernels, options));
  } catch (const std::system_error& error) {
    return Error{Code::kExhausted,
                 fmt::format("cpu backend: cannot start {} threads ({}); use fewer with --threads",
                             options.threads, error.what())};
  }
}

BackendFlag isa_flag() {
  return {kIsa, "NAME", "auto",
          "Instruction set of the cpu backend: auto (default: the widest supported), amx, avx512bf16, "
          "avx512vnni, avx512, avxvnni, avx2, neoni8mm, neondot, neon, portable",
          [](const std::string&) { return Status(); }};  // choose_kernels lists the sets of this machine
}

}  // namespace

BackendKind cpu_backend() {
  return {"cpu", {isa_flag(), activations_flag(), kv_bits_flag()}, make_cpu_backend};
}

Result<std::unique_ptr<Backend>> make_cpu_backend(const BackendOptions& options) {
  return format::with_memory_guard("start its threads", "cpu backend", [&] { return start(options); });
}

}  // namespace ft
