#include "backends/split/tensor.h"

#include <algorithm>
#include <fmt/format.h>
#include <system_error>

#include "backends/split/rank_group.h"
#include "backends/split/ranks.h"
#include "backends/split/state.h"
#include "backends/split/tensor_executable.h"
#include "program/check.h"

namespace ft::split {
namespace {

std::string ordinal_name(std::size_t part, const std::string& name) {
  return fmt::format("device {} ({})", part + 1, name);
}

/// Whether the host samples from logits of all ranks: where they are in the machine's memory anyway.
bool has_host_head(const Backend& home) { return home.limits({}).memory_bytes == 0; }

/// Heads of the widest attention and recurrence, and rows of the LM head.
struct Sizes {
  int heads = 0, value_heads = 0;
  std::int64_t tokens = 0;
};
Sizes sizes_of(const Program& program) {
  Sizes sizes;
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* attend = std::get_if<Attention>(&instruction))
      sizes.heads = std::max(sizes.heads, attend->heads);
    if (const auto* delta = std::get_if<DeltaRule>(&instruction))
      sizes.value_heads = std::max(sizes.value_heads, delta->value_heads);
    if (const auto* logits = std::get_if<Logits>(&instruction)) sizes.tokens = logits->lm_head.rows;
  }
  return sizes;
}

/// "2 of 4 heads, 8 of 16 value heads, 4096 of 8192 tokens, the embedding".
std::string task_of(const Program& whole, const Program& own, std::size_t part) {
  const Sizes all = sizes_of(whole), mine = sizes_of(own);
  std::string text = fmt::format("{} of {} heads", mine.heads, all.heads);
  if (all.value_heads > 0) text += fmt::format(", {} of {} value heads", mine.value_heads, all.value_heads);
  text += fmt::format(", {} of {} tokens", mine.tokens, all.tokens);
  return part == 0 ? text + ", the embedding" : text;
}

class TensorBackend final : public Division {
 public:
  TensorBackend(std::vector<Part> parts, std::vector<StateLayout> layouts, StateLayout whole,
                std::vector<bool> cut_caches, RankGroupOptions options)
      : parts_(std::move(parts)),
        layouts_(std::move(layouts)),
        whole_(std::move(whole)),
        cut_caches_(std::move(cut_caches)),
        group_(names(), std::move(options)) {}

  std::string_view name() const override { return "split"; }
  std::string describe() const override {
    return fmt::format("{} ranks, each on {}", parts_.size(), home().describe());
  }
  std::string arithmetic() const override {
    return fmt::format("{} ranks, each on {}", parts_.size(), home().arithmetic());
  }
  Limits limits(const StateLayout& layout) const override {
    Limits all = home().limits(layout);
    if (same_layout(layout, whole_)) {
      all.block_bytes = all.slot_bytes = 0, all.sliding_window_part = {};
      for (std::size_t p = 0; p < parts_.size(); ++p) {
        const Limits own = parts_[p].backend->limits(layouts_[p]);
        all.block_bytes += own.block_bytes, all.slot_bytes += own.slot_bytes;
        all.sliding_window_part.block_bytes += own.sliding_window_part.block_bytes;
        all.sliding_window_part.positions =
            std::max(all.sliding_window_part.positions, own.sliding_window_part.positions);
      }
    }
    all.memory_bytes = least_memory() * static_cast<std::int64_t>(parts_.size());
    return all;
  }
  ProgramMemory memory_for(const Program& program, const Occupancy& use) const override {
    if (!divides(program)) return home().memory_for(program, use);
    const Result<Ranks> ranks = ranks_of(program);
    if (!ranks.ok()) return home().memory_for(program, use);
    ProgramMemory all;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const ProgramMemory own = parts_[p].backend->memory_for(ranks->parts[p].whole, use);
      all.weights += own.weights, all.key_values += own.key_values;
      all.states += own.states, all.scratch += scratch_of(p, ranks->parts[p], use);
    }
    return all;
  }
  Status check_supported(const Program& program) const override {
    if (!divides(program)) return home().check_supported(program);
    FT_ASSIGN(const Ranks ranks, ranks_of(program));
    for (std::size_t p = 0; p < parts_.size(); ++p)
      FT_TRY(parts_[p].backend->check_supported(ranks.parts[p].whole));
    return {};
  }
  std::vector<int> worker_choices() const override { return home().worker_choices(); }
  void use_workers(int workers) override {
    for (const Part& part : parts_) part.backend->use_workers(workers);
  }
  double measured_bandwidth_gb_s() override { return home().measured_bandwidth_gb_s(); }

  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    if (!divides(program)) return home().compile(program, options);
    FT_TRY(check(program));
    FT_ASSIGN(Ranks ranks, ranks_of(program));
    std::vector<PartOf> parts;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      parts.push_back({ordinal_name(p, parts_[p].name), parts_[p].backend.get()});
    return make_tensor_executable(std::move(ranks), std::move(parts), group_, options);
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    if (!same_layout(layout, whole_)) return home().make_state(layout, options);
    std::vector<std::unique_ptr<State>> states;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      FT_ASSIGN(std::unique_ptr<State> state, parts_[p].backend->make_state(layouts_[p], options));
      states.push_back(std::move(state));
    }
    return std::unique_ptr<State>(std::make_unique<SplitState>(std::move(states)));
  }
  Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) override {
    return home().make_rows(width, capacity);
  }
  Result<std::unique_ptr<RowBorder>> make_border(int width, int capacity) override {
    return home().make_border(width, capacity);
  }

  Result<std::vector<std::string>> division(const Program& program) const override {
    FT_ASSIGN(const Ranks ranks, ranks_of(program));
    std::vector<std::string> lines;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Program& own = ranks.parts[p].whole;
      const std::int64_t free = parts_[p].backend->limits({}).memory_bytes;
      lines.push_back(fmt::format(
          "{} ({}): {}, {:.2f} GB of weights, {} exchanges a step{}", p + 1, parts_[p].name,
          task_of(program, own, p), static_cast<double>(own.bytes_held()) * 1e-9, ranks.exchanges.size(),
          free > 0 ? fmt::format(", {:.2f} GB free", static_cast<double>(free) * 1e-9) : std::string()));
    }
    return lines;
  }

 private:
  Backend& home() { return *parts_[0].backend; }
  const Backend& home() const { return *parts_[0].backend; }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (std::size_t p = 0; p < parts_.size(); ++p) all.push_back(ordinal_name(p, parts_[p].name));
    return all;
  }
  bool divides(const Program& program) const { return same_layout(program.layout(), whole_); }
  /// Activations of a rank's stages: a device uses the same memory for all, the machine's backends do not.
  std::int64_t scratch_of(std::size_t part, const RankPart& rank, const Occupancy& use) const {
    const Backend& backend = *parts_[part].backend;
    const bool shared = backend.limits({}).memory_bytes > 0;
    std::int64_t bytes = 0;
    for (const RankStage& stage : rank.stages) {
      if (stage.program.instructions().empty()) continue;
      const std::int64_t own = backend.memory_for(stage.program, use).scratch;
      bytes = shared ? std::max(bytes, own) : bytes + own;
    }
    return bytes;
  }
  std::int64_t least_memory() const {
    std::int64_t least = home().limits({}).memory_bytes;
    for (const Part& part : parts_) least = std::min(least, part.backend->limits({}).memory_bytes);
    return least;
  }
  Result<Ranks> ranks_of(const Program& program) const {
    const bool over = program.reads_only();
    FT_ASSIGN(RankPlan plan, plan_ranks(program, static_cast<int>(parts_.size()), has_host_head(home()),
                                        over ? &cut_caches_ : nullptr));
    return cut_over_ranks(program, std::move(plan), over ? layouts_ : std::vector<StateLayout>());
  }
  std::vector<Part> parts_;
  std::vector<StateLayout> layouts_;  // by rank, of the target
  StateLayout whole_;
  std::vector<bool> cut_caches_;
  RankGroup group_;  // its threads end before the backends do
};

}  // namespace

Result<std::unique_ptr<Backend>> by_ranks(std::vector<Part> parts, const Program& target,
                                          RankGroupOptions options) {
  const std::string arithmetic = parts.front().backend->arithmetic();
  for (const Part& part : parts) {
    if (part.backend->arithmetic() == arithmetic) continue;
    return Error{
        Code::kInvalid,
        fmt::format("--split tensor: {} computes with {}, and {} with {}; name devices of one kind, or "
                    "use --split layers",
                    parts.front().name, arithmetic, part.name, part.backend->arithmetic())};
  }
  const int ranks = static_cast<int>(parts.size());
  FT_ASSIGN(RankPlan plan, plan_ranks(target, ranks, has_host_head(*parts.front().backend)));
  std::vector<bool> cut_caches = cut_caches_of(target, plan);
  FT_ASSIGN(const Ranks cut, cut_over_ranks(target, std::move(plan)));
  std::vector<StateLayout> layouts;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Program& own = cut.parts[p].whole;
    layouts.push_back(own.layout());
    const std::int64_t free = parts[p].backend->limits({}).memory_bytes;
    if (free == 0 || own.bytes_held() <= free) continue;
    return Error{
        Code::kExhausted,
        fmt::format("--split tensor: the part of device {} ({}) takes {:.1f} GB, and {:.1f} GB are free; "
                    "name more devices, or use --split layers, which takes unequal ones",
                    p + 1, parts[p].name, static_cast<double>(own.bytes_held()) * 1e-9,
                    static_cast<double>(free) * 1e-9)};
  }
  try {
    return std::unique_ptr<Backend>(std::make_unique<TensorBackend>(
        std::move(parts), std::move(layouts), target.layout(), std::move(cut_caches), std::move(options)));
  } catch (const std::system_error& error) {
    return Error{Code::kExhausted,
                 fmt::format("--split tensor: the machine refuses a thread for each of {} devices ({})",
                             ranks, error.what())};
  }
}

}  // namespace ft::split
