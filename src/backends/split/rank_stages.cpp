#include "backends/split/rank_stages.h"

#include <algorithm>
#include <fmt/format.h>

namespace ft::split {
namespace {

struct RowsUsed final : Describer {
  void reads(Row row, int, Granularity) override {
    if (row.id >= 0) in.push_back(row);
  }
  void writes(Row row, int, Granularity) override { out.push_back(row); }
  std::vector<Row> in, out;
};

class StageCutter {
 public:
  StageCutter(Ranks& ranks, std::size_t rank, const std::vector<std::size_t>& begins)
      : ranks_(ranks), part_(ranks.parts[rank]), rank_(rank), begins_(begins) {
    const auto rows = static_cast<std::size_t>(part_.whole.row_count());
    made_in_.resize(rows, -1), read_in_.resize(rows, -1), held_.resize(rows, -1), crosses_.resize(rows);
    for (const RankExchange& exchange : ranks.exchanges) exchanged_.push_back(exchange.made[rank].id);
  }

  Status run() {
    find_uses();
    hold_rows();
    for (int stage = 0; stage < stages(); ++stage) FT_TRY(make(stage));
    return {};
  }

 private:
  int stages() const { return static_cast<int>(begins_.size()) + 1; }
  std::size_t begin_of(int stage) const {
    return stage == 0 ? 0 : begins_[static_cast<std::size_t>(stage) - 1];
  }
  std::size_t end_of(int stage) const {
    return stage + 1 == stages() ? part_.whole.instructions().size()
                                 : begins_[static_cast<std::size_t>(stage)];
  }
  bool is_exchanged(const Instruction& instruction) const {
    const auto* input = std::get_if<Input>(&instruction);
    return input != nullptr && std::ranges::binary_search(exchanged_, input->out.id);
  }
  static std::size_t at(Row row) { return static_cast<std::size_t>(row.id); }

  void find_uses() {
    for (int stage = 0; stage < stages(); ++stage) {
      for (std::size_t i = begin_of(stage); i < end_of(stage); ++i) {
        RowsUsed used;
        describe(part_.whole.instructions()[i], used);
        for (const Row row : used.out) made_in_[at(row)] = stage;
        for (const Row row : used.in) read_in_[at(row)] = stage;
      }
    }
    for (std::size_t e = 0; e < ranks_.exchanges.size(); ++e) {
      const RankExchange& exchange = ranks_.exchanges[e];
      crosses_[at(exchange.made[rank_])] = true;
      const Row sent = exchange.sent[rank_];
      if (sent.id < 0) continue;
      crosses_[at(sent)] = true;
      read_in_[at(sent)] = std::max(read_in_[at(sent)], static_cast<int>(e) + 1);  // after its stage
    }
    for (const Capture& capture : ranks_.captures) {
      if (rank_ == 0) read_in_[at(capture.in)] = stages();
    }
  }

  void hold_rows() {
    for (const Instruction& instruction : part_.whole.instructions()) {
      RowsUsed used;
      describe(instruction, used);
      for (const Row row : used.out) {
        const bool outlives = read_in_[at(row)] > made_in_[at(row)];
        if (!outlives && !is_exchanged(instruction)) continue;
        held_[at(row)] = static_cast<int>(part_.rows.size());
        part_.rows.push_back(
            {row, made_in_[at(row)], std::max(made_in_[at(row)], read_in_[at(row)]), crosses_[at(row)]});
      }
    }
  }

  Status make(int number) {
    RankStage stage;
    std::vector<Instruction> list;
    for (std::size_t i = begin_of(number); i < end_of(number); ++i) {
      const Instruction& instruction = part_.whole.instructions()[i];
      RowsUsed used;
      describe(instruction, used);
      for (const Row row : used.in) {
        const bool given = made_in_[at(row)] < number || std::ranges::binary_search(exchanged_, row.id);
        const int held = held_[at(row)];
        if (!given || std::ranges::find(stage.inputs, held) != stage.inputs.end()) continue;
        list.emplace_back(Input{row.width, row, static_cast<int>(stage.inputs.size())});
        stage.inputs.push_back(held);
      }
    }
    for (std::size_t i = begin_of(number); i < end_of(number); ++i) {
      const Instruction& instruction = part_.whole.instructions()[i];
      if (is_exchanged(instruction)) continue;
      stage.takes_hidden |= std::holds_alternative<Input>(instruction);
      stage.needs_tokens |= std::holds_alternative<Embed>(instruction);
      stage.answers |=
          std::holds_alternative<Logits>(instruction) || std::holds_alternative<ClusterLogits>(instruction);
      list.push_back(instruction);
    }
    stage.needs_tokens |= stage.answers;
    for (std::size_t held = 0; held < part_.rows.size(); ++held) {
      const RankRow& row = part_.rows[held];
      if (row.first != number || std::ranges::binary_search(exchanged_, row.row.id)) continue;
      list.emplace_back(Capture{"", row.row, static_cast<int>(stage.outputs.size())});
      stage.outputs.push_back(static_cast<int>(held));
    }
    if (stage.inputs.size() > kMaxInputs || stage.outputs.size() > kMaxCaptures ||
        (stage.takes_hidden && !stage.inputs.empty())) {
      return Error{
          Code::kUnsupported,
          fmt::format("--split tensor: {} rows enter one step of a device and {} leave it, and {} and "
                      "{} can; use --split layers",
                      stage.inputs.size(), stage.outputs.size(), kMaxInputs, kMaxCaptures)};
    }
    stage.program = Program::part_of(part_.whole, part_.whole.layout(), std::move(list));
    part_.stages.push_back(std::move(stage));
    return {};
  }

  Ranks& ranks_;
  RankPart& part_;
  std::size_t rank_;
  const std::vector<std::size_t>& begins_;
  std::vector<int> exchanged_;          // rows that exchanges make, ascending
  std::vector<int> made_in_, read_in_;  // by row: stages
  std::vector<int> held_;               // by row: in RankPart::rows
  std::vector<bool> crosses_;           // by row
};

}  // namespace

Status make_stages(Ranks& ranks, const std::vector<std::vector<std::size_t>>& begins) {
  for (std::size_t rank = 0; rank < ranks.parts.size(); ++rank)
    FT_TRY(StageCutter(ranks, rank, begins[rank]).run());
  return {};
}

}  // namespace ft::split
