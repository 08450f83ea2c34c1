#include "backends/split/stages.h"

#include <algorithm>
#include <fmt/format.h>

namespace ft::split {
namespace {

struct RowsOf final : Describer {
  void reads(Row row, int, Granularity) override {
    if (row.id >= 0) in.push_back(row);
  }
  void writes(Row row, int, Granularity) override { out.push_back(row); }
  std::vector<Row> in, out;
};

/// Instructions of a part that keep their order whatever their rows are: they share state or logits.
bool keeps_order(const Instruction& instruction) {
  return std::holds_alternative<Attention>(instruction) ||
         std::holds_alternative<CausalConv1d>(instruction) ||
         std::holds_alternative<DeltaRule>(instruction) || std::holds_alternative<Logits>(instruction) ||
         std::holds_alternative<ClusterLogits>(instruction) || std::holds_alternative<Sample>(instruction) ||
         std::holds_alternative<Walk>(instruction);
}

bool answers(const Instruction& instruction) {
  return std::holds_alternative<Logits>(instruction) || std::holds_alternative<ClusterLogits>(instruction) ||
         std::holds_alternative<Sample>(instruction) || std::holds_alternative<Walk>(instruction);
}

class Cutter {
 public:
  Cutter(const Program& program, const Placement& placement)
      : program_(program),
        placement_(placement),
        made_in_(static_cast<std::size_t>(program.row_count()), -1) {
    for (const Instruction& instruction : program.instructions()) describe(instruction, rows_.emplace_back());
    done_.resize(rows_.size());
  }

  Result<Stages> run() {
    stages_.layout = split_layout(program_, placement_);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (answers(program_.instructions()[i])) stages_.home = placement_.part_of[i];
    }
    order();
    find_crossings();
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      FT_ASSIGN(Stage stage, make(static_cast<int>(s)));
      stages_.list.push_back(std::move(stage));
    }
    return std::move(stages_);
  }

 private:
  /// Numbers of the instructions of each stage, and its part.
  struct List {
    int part = 0;
    std::vector<int> numbers;
  };

  void order() {
    int left = static_cast<int>(rows_.size());
    while (left > 0) {
      const auto first = std::ranges::find(done_, false) - done_.begin();
      List& list = lists_.emplace_back();
      list.part = placement_.part_of[static_cast<std::size_t>(first)];
      bool waits = false;  // an instruction that keeps its order is not done yet
      for (std::size_t i = static_cast<std::size_t>(first); i < rows_.size(); ++i) {
        if (done_[i] || placement_.part_of[i] != list.part) continue;
        const bool ordered = keeps_order(program_.instructions()[i]);
        const bool ready = std::ranges::all_of(
            rows_[i].in, [&](Row row) { return made_in_[static_cast<std::size_t>(row.id)] >= 0; });
        if (!ready || (ordered && waits)) {
          waits |= ordered;
          continue;
        }
        done_[i] = true, --left;
        list.numbers.push_back(static_cast<int>(i));
        for (const Row row : rows_[i].out)
          made_in_[static_cast<std::size_t>(row.id)] = static_cast<int>(lists_.size()) - 1;
      }
    }
  }

  void find_crossings() {
    crossing_of_.assign(static_cast<std::size_t>(program_.row_count()), -1);
    for (std::size_t s = 0; s < lists_.size(); ++s) {
      for (const int number : lists_[s].numbers) {
        for (const Row row : rows_[static_cast<std::size_t>(number)].in) {
          const int made = made_in_[static_cast<std::size_t>(row.id)];
          if (made == static_cast<int>(s)) continue;
          Crossing& crossing = crossing_for(row, made);
          crossing.last_stage = std::max(crossing.last_stage, static_cast<int>(s));
          if (std::ranges::find(crossing.readers, lists_[s].part) == crossing.readers.end())
            crossing.readers.push_back(lists_[s].part);
        }
      }
    }
    for (Crossing& crossing : stages_.crossings) std::ranges::sort(crossing.readers);
  }

  Crossing& crossing_for(Row row, int made) {
    int& number = crossing_of_[static_cast<std::size_t>(row.id)];
    if (number < 0) {
      number = static_cast<int>(stages_.crossings.size());
      stages_.crossings.push_back({row, made, lists_[static_cast<std::size_t>(made)].part, {}, made});
    }
    return stages_.crossings[static_cast<std::size_t>(number)];
  }

  Result<Stage> make(int number) {
    const List& list = lists_[static_cast<std::size_t>(number)];
    Stage stage;
    stage.part = list.part;
    // The captures of a program share their places, and crossing rows have others than captured ones.
    const bool crosses =
        list.part != stages_.home || std::ranges::any_of(stages_.crossings, [&](const Crossing& crossing) {
          return crossing.stage == number;
        });
    std::vector<Instruction> made;
    for (const int n : list.numbers) {
      for (const Row row : rows_[static_cast<std::size_t>(n)].in) take(row, number, stage, made);
    }
    for (const int n : list.numbers) {
      const Instruction& instruction = program_.instructions()[static_cast<std::size_t>(n)];
      if (std::holds_alternative<Input>(instruction)) {
        return Error{Code::kUnsupported, "a program that takes hidden rows cannot be split over devices"};
      }
      stage.embeds |= std::holds_alternative<Embed>(instruction);
      stage.answers |= answers(instruction);
      if (const auto* capture = std::get_if<Capture>(&instruction)) {
        add(*capture, number, crosses, stage, made);
      } else {
        made.push_back(in_own_state(instruction));
      }
    }
    for (std::size_t c = 0; c < stages_.crossings.size(); ++c) {
      const Crossing& crossing = stages_.crossings[c];
      if (crossing.stage != number) continue;
      made.emplace_back(Capture{"", crossing.row, static_cast<int>(stage.outputs.size())});
      stage.outputs.push_back(static_cast<int>(c));
    }
    if (stage.inputs.size() > kMaxInputs || stage.outputs.size() > kMaxCaptures) {
      return Error{Code::kUnsupported,
                   fmt::format("{} rows enter a device and {} leave it in one place, at most {} and {} can; "
                               "use one device",
                               stage.inputs.size(), stage.outputs.size(), kMaxInputs, kMaxCaptures)};
    }
    stage.program = Program::part_of(program_, stages_.layout.parts[static_cast<std::size_t>(list.part)],
                                     std::move(made));
    return stage;
  }

  /// An input for a row of an earlier stage.
  void take(Row row, int number, Stage& stage, std::vector<Instruction>& made) const {
    if (made_in_[static_cast<std::size_t>(row.id)] == number) return;
    const int crossing = crossing_of_[static_cast<std::size_t>(row.id)];
    if (std::ranges::find(stage.inputs, crossing) != stage.inputs.end()) return;
    made.emplace_back(Input{row.width, row, static_cast<int>(stage.inputs.size())});
    stage.inputs.push_back(crossing);
  }

  void add(const Capture& capture, int number, bool crosses, Stage& stage, std::vector<Instruction>& made) {
    if (!crosses) {
      const int own = static_cast<int>(stage.captures.size());
      made.emplace_back(Capture{capture.name, capture.in, own});
      return stage.captures.push_back({capture.number, -1, own});
    }
    Crossing& crossing = crossing_for(capture.in, made_in_[static_cast<std::size_t>(capture.in.id)]);
    crossing.last_stage = std::max(crossing.last_stage, number), crossing.captured = true;
    stage.captures.push_back({capture.number, crossing_of_[static_cast<std::size_t>(capture.in.id)], 0});
  }

  /// The instruction with its part's numbers of caches and states.
  Instruction in_own_state(Instruction instruction) const {
    const auto place = [](const std::vector<StatePlace>& places, int& number) {
      number = places[static_cast<std::size_t>(number)].index;
    };
    if (auto* attend = std::get_if<Attention>(&instruction)) place(stages_.layout.caches, attend->cache);
    if (auto* conv = std::get_if<CausalConv1d>(&instruction)) place(stages_.layout.conv_states, conv->state);
    if (auto* delta = std::get_if<DeltaRule>(&instruction)) place(stages_.layout.deltas, delta->state);
    return instruction;
  }

  const Program& program_;
  const Placement& placement_;
  std::vector<RowsOf> rows_;  // by instruction
  std::vector<bool> done_;
  std::vector<int> made_in_;      // by row: its stage
  std::vector<int> crossing_of_;  // by row
  std::vector<List> lists_;
  Stages stages_;
};

}  // namespace

Result<Stages> cut(const Program& program, const Placement& placement) {
  return Cutter(program, placement).run();
}

}  // namespace ft::split
