#include "backends/split/backend.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "backends/split/executable.h"
#include "backends/split/stages.h"
#include "backends/split/state.h"
#include "program/check.h"
#include "program/forwarding_backend.h"

namespace ft::split {
namespace {

bool has_experts(const Program& program) {
  return std::ranges::any_of(program.instructions(), [](const Instruction& instruction) {
    return std::holds_alternative<MoeMlp>(instruction);
  });
}

bool takes_rows(const Program& program) {
  return std::ranges::any_of(program.instructions(), [](const Instruction& instruction) {
    return std::holds_alternative<Input>(instruction);
  });
}

/// The instructions of one part as one program, for its memory.
Program all_of(const Stages& stages, int part) {
  std::vector<Instruction> list;
  const Program* any = nullptr;
  for (const Stage& stage : stages.list) {
    if (stage.part != part) continue;
    any = &stage.program;
    list.insert(list.end(), any->instructions().begin(), any->instructions().end());
  }
  return any == nullptr
             ? Program()
             : Program::part_of(*any, stages.layout.parts[static_cast<std::size_t>(part)], std::move(list));
}

/// A program over the timelines of a divided one, on the part whose layers it reads.
class OnOnePart final : public ForwardingExecutable {
 public:
  OnOnePart(std::unique_ptr<Executable> executable, int part)
      : ForwardingExecutable(std::move(executable)), part_(part) {}
  void submit(const StepArgs& args, State& state) override {
    inner().submit(args, static_cast<SplitState&>(state).part(part_));
  }

 private:
  int part_;
};

/// The base of both divisions.
class SplitBackend : public Division {
 public:
  explicit SplitBackend(std::vector<Part> parts, std::size_t home) : parts_(std::move(parts)), home_(home) {}

  std::string_view name() const override { return "split"; }
  std::string describe() const override {
    return told([](const Backend& part) { return part.describe(); });
  }
  std::string arithmetic() const override {
    return told([](const Backend& part) { return part.arithmetic(); });
  }
  Status check_supported(const Program& program) const override {
    if (!divides(program) || program.reads_only()) return home().check_supported(program);
    FT_ASSIGN(const Stages stages, stages_of(program));
    for (const Stage& stage : stages.list)
      FT_TRY(parts_[static_cast<std::size_t>(stage.part)].backend->check_supported(stage.program));
    return {};
  }
  std::vector<int> worker_choices() const override {
    for (const Part& part : parts_) {
      if (std::vector<int> choices = part.backend->worker_choices(); !choices.empty()) return choices;
    }
    return {};
  }
  void use_workers(int workers) override {
    for (const Part& part : parts_) part.backend->use_workers(workers);
  }
  double measured_bandwidth_gb_s() override { return home().measured_bandwidth_gb_s(); }
  ProgramMemory memory_for(const Program& program, const Occupancy& use) const override {
    if (!divides(program) || program.reads_only()) return home().memory_for(program, use);
    const Result<Stages> stages = stages_of(program);
    if (!stages.ok()) return home().memory_for(program, use);
    ProgramMemory all;
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      if (!counts(part)) continue;
      const ProgramMemory own =
          parts_[part].backend->memory_for(all_of(*stages, static_cast<int>(part)), use);
      all.weights += own.weights, all.key_values += own.key_values;
      all.states += own.states, all.scratch += own.scratch;
    }
    return all;
  }
  Result<std::unique_ptr<Executable>> compile(const Program& program,
                                              const CompileOptions& options) override {
    if (!divides(program)) return home().compile(program, options);
    FT_TRY(check(program));
    if (program.reads_only()) return compile_over(program, options);
    FT_ASSIGN(Stages stages, stages_of(program));
    std::vector<PartOf> parts;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      parts.push_back({fmt::format("device {} ({})", p + 1, parts_[p].name), parts_[p].backend.get()});
    return make_executable(std::move(stages), std::move(parts), options, splits_state());
  }
  Result<std::unique_ptr<RowStore>> make_rows(int width, int capacity) override {
    return home().make_rows(width, capacity);
  }
  Result<std::vector<std::string>> division(const Program& program) const override {
    FT_ASSIGN(const Placement placement, place(program));
    std::vector<std::string> lines;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const std::int64_t free = parts_[p].backend->limits({}).memory_bytes;
      lines.push_back(fmt::format(
          "{} ({}): {}, {:.2f} GB of weights{}", p + 1, parts_[p].name, task_of(p),
          static_cast<double>(bytes_on(program, placement, static_cast<int>(p))) * 1e-9,
          free > 0 ? fmt::format(", {:.2f} GB free", static_cast<double>(free) * 1e-9) : std::string()));
    }
    return lines;
  }
  Result<std::unique_ptr<RowBorder>> make_border(int width, int capacity) override {
    return home().make_border(width, capacity);
  }

 protected:
  virtual bool divides(const Program& program) const = 0;
  virtual Result<Placement> place(const Program& program) const = 0;
  virtual std::string task_of(std::size_t part) const = 0;
  virtual bool splits_state() const = 0;
  virtual Result<std::unique_ptr<Executable>> compile_over(const Program& program,
                                                           const CompileOptions& options) = 0;
  /// Whether the part's memory is among the limits.
  virtual bool counts(std::size_t part) const = 0;

  Backend& home() { return *parts_[home_].backend; }
  const Backend& home() const { return *parts_[home_].backend; }
  const std::vector<Part>& parts() const { return parts_; }
  Result<Stages> stages_of(const Program& program) const {
    FT_ASSIGN(const Placement placement, place(program));
    return cut(program, placement);
  }

 private:
  template <class Tell>
  std::string told(const Tell& tell) const {
    std::string text;
    for (std::size_t p = 0; p < parts_.size(); ++p)
      text += fmt::format("{}{} on {}", p == 0 ? "" : "; ", task_of(p), tell(*parts_[p].backend));
    return text;
  }

  std::vector<Part> parts_;
  std::size_t home_;  // the part that answers
};

class ByLayers final : public SplitBackend {
 public:
  ByLayers(std::vector<Part> parts, std::vector<int> counts, SplitLayout layout, StateLayout whole,
           std::int64_t host_bytes)
      : SplitBackend(std::move(parts), counts.size() - 1),
        counts_(std::move(counts)),
        layout_(std::move(layout)),
        whole_(std::move(whole)),
        host_bytes_(host_bytes) {}

  Limits limits(const StateLayout& layout) const override {
    if (!same_layout(layout, whole_)) return with_memory(home().limits(layout));
    Limits all;
    all.prefill_chunk = 0;
    for (std::size_t p = 0; p < parts().size(); ++p) {
      const Limits own = parts()[p].backend->limits(layout_.parts[p]);
      all.block_bytes += own.block_bytes, all.slot_bytes += own.slot_bytes;
      all.sliding_window_part.block_bytes += own.sliding_window_part.block_bytes;
      all.sliding_window_part.positions =
          std::max(all.sliding_window_part.positions, own.sliding_window_part.positions);
      all.prefill_chunk = p == 0 ? own.prefill_chunk : std::min(all.prefill_chunk, own.prefill_chunk);
    }
    return with_memory(all);
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    if (!same_layout(layout, whole_)) return home().make_state(layout, options);
    std::vector<std::unique_ptr<State>> states;
    for (std::size_t p = 0; p < parts().size(); ++p) {
      FT_ASSIGN(std::unique_ptr<State> state, parts()[p].backend->make_state(layout_.parts[p], options));
      states.push_back(std::move(state));
    }
    return std::unique_ptr<State>(std::make_unique<SplitState>(std::move(states)));
  }

 protected:
  bool divides(const Program& program) const override { return same_layout(program.layout(), whole_); }
  Result<Placement> place(const Program& program) const override { return place_layers(program, counts_); }
  Result<std::unique_ptr<Executable>> compile_over(const Program& program,
                                                   const CompileOptions& options) override {
    const int home = static_cast<int>(parts().size()) - 1;
    std::vector<Instruction> list = program.instructions();
    for (Instruction& instruction : list) {
      auto* attend = std::get_if<Attention>(&instruction);
      if (attend == nullptr) continue;
      const StatePlace place = layout_.caches[static_cast<std::size_t>(attend->cache)];
      if (place.part != home) {
        return Error{Code::kUnsupported,
                     fmt::format("the drafter reads keys and values of layers on device {}, and drafts on "
                                 "device {}; use another --drafter, or give these layers to the last device",
                                 place.part + 1, home + 1)};
      }
      attend->cache = place.index;
    }
    const Program own =
        Program::part_of(program, layout_.parts[static_cast<std::size_t>(home)], std::move(list));
    FT_ASSIGN(std::unique_ptr<Executable> executable, this->home().compile(own, options));
    return std::unique_ptr<Executable>(std::make_unique<OnOnePart>(std::move(executable), home));
  }
  std::string task_of(std::size_t part) const override {
    const int first =
        std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(part), 0);
    return fmt::format("layers {} to {}", first + 1, first + counts_[part]);
  }
  bool splits_state() const override { return true; }
  bool counts(std::size_t /*part*/) const override { return true; }

 private:
  /// The sum over devices with their own memory, and the machine if a part works there.
  Limits with_memory(Limits limits) const {
    std::int64_t devices = 0;
    bool host = false;
    for (std::size_t p = 0; p < parts().size(); ++p) {
      const std::int64_t own = parts()[p].backend->limits(layout_.parts[p]).memory_bytes;
      devices += own, host |= own == 0;
    }
    limits.memory_bytes = devices == 0 ? 0 : devices + (host ? host_bytes_ : 0);
    return limits;
  }

  std::vector<int> counts_;
  SplitLayout layout_;
  StateLayout whole_;
  std::int64_t host_bytes_;
};

class WithExperts final : public SplitBackend {
 public:
  WithExperts(std::vector<Part> parts, int layers) : SplitBackend(std::move(parts), 0), layers_(layers) {}

  Limits limits(const StateLayout& layout) const override { return home().limits(layout); }
  Result<std::unique_ptr<State>> make_state(const StateLayout& layout, const StateOptions& options) override {
    return home().make_state(layout, options);
  }

 protected:
  /// Heads that draft keep their experts: a layer of them is small, and its rows never leave the device.
  bool divides(const Program& program) const override {
    return layers_ != 0 && has_experts(program) && !takes_rows(program) && !program.reads_only();
  }
  Result<Placement> place(const Program& program) const override { return place_experts(program, layers_); }
  Result<std::unique_ptr<Executable>> compile_over(const Program& program,
                                                   const CompileOptions& options) override {
    return home().compile(program, options);
  }
  std::string task_of(std::size_t part) const override {
    if (part == 0) return "all but routed experts";
    return layers_ < 0 ? "routed experts" : fmt::format("routed experts of {} layers", layers_);
  }
  bool splits_state() const override { return false; }
  bool counts(std::size_t part) const override { return part == 0; }

 private:
  int layers_;
};

}  // namespace

Result<std::unique_ptr<Backend>> by_layers(std::vector<Part> parts, std::vector<int> counts,
                                           const Program& target, std::int64_t host_bytes) {
  if (counts.empty()) {
    std::vector<std::int64_t> room;
    bool known = true;
    for (const Part& part : parts) {
      const std::int64_t own = part.backend->limits({}).memory_bytes;
      room.push_back(own > 0 ? own : host_bytes);
      known &= room.back() > 0;
    }
    if (!known) std::ranges::fill(room, target.bytes_held() * 2 + 1);
    FT_ASSIGN(counts, share_layers(layers_of(target), room));
  }
  FT_ASSIGN(const Placement placement, place_layers(target, counts));
  return std::unique_ptr<Backend>(std::make_unique<ByLayers>(
      std::move(parts), std::move(counts), split_layout(target, placement), target.layout(), host_bytes));
}

Result<std::unique_ptr<Backend>> with_experts(Part main, Part experts, int layers) {
  std::vector<Part> parts;
  parts.push_back(std::move(main)), parts.push_back(std::move(experts));
  return std::unique_ptr<Backend>(std::make_unique<WithExperts>(std::move(parts), layers));
}

}  // namespace ft::split
