#include "program/program.h"

#include <fmt/format.h>

#include "program/row_source.h"

namespace ft {

std::vector<Row> Program::linear(Row in, std::vector<Weight> weights) {
  std::vector<Row> outs;
  outs.reserve(weights.size());
  for (const Weight& weight : weights) outs.push_back(make(static_cast<int>(weight.rows)));
  instructions_.emplace_back(Linear{in, std::move(weights), outs});
  return outs;
}

Program Program::part_of(const Program& whole, StateLayout layout, std::vector<Instruction> instructions) {
  Program part;
  part.instructions_ = std::move(instructions), part.layout_ = std::move(layout);
  part.row_count_ = whole.row_count_, part.max_weight_bits_ = whole.max_weight_bits_;
  part.reads_only_ = whole.reads_only_;
  for (const Instruction& instruction : part.instructions_)
    part.capture_count_ += std::holds_alternative<Capture>(instruction) ? 1 : 0;
  return part;
}

namespace {

std::string weight_text(const Weight& weight) {
  const std::string format = weight.format == Format::kAffine
                                 ? fmt::format("affine{}g{}", weight.bits, weight.group)
                                 : std::string(format_name(weight.format));
  return fmt::format("{} {}x{} {}", weight.name, weight.rows, weight.cols, format);
}

/// For example "r5[64], r6[8] = r4[64], q_proj 64x64 bf16, gated".
class Text final : public Describer {
 public:
  void reads(Row row, int, Granularity) override { join(inputs_, fmt::format("r{}[{}]", row.id, row.width)); }
  void writes(Row row, int, Granularity) override {
    join(outputs_, fmt::format("r{}[{}]", row.id, row.width));
  }
  void reads_logits() override { join(inputs_, "logits"); }
  void writes_logits(std::int64_t columns) override { join(outputs_, fmt::format("logits[{}]", columns)); }
  void vector(const Weight& weight, std::int64_t) override { join(weights_, weight_text(weight)); }
  void table(const Weight& weight, std::int64_t) override { join(weights_, weight_text(weight)); }
  void matrix(const Weight& weight, std::int64_t, std::int64_t, std::int64_t) override {
    join(weights_, weight_text(weight));
  }
  void experts(std::span<const Weight> weights, std::int64_t, std::int64_t, int) override {
    if (!weights.empty())
      join(weights_, fmt::format("{} x {}", weights.size(), weight_text(weights.front())));
  }
  void note(std::string_view text) override { join(notes_, text); }

  std::string text() const {
    std::string all = inputs_;
    join(all, weights_), join(all, notes_);
    return outputs_.empty() ? all : fmt::format("{} = {}", outputs_, all);
  }

 private:
  static void join(std::string& list, std::string_view item) {
    if (item.empty()) return;
    list += list.empty() ? "" : ", ";
    list += item;
  }
  std::string inputs_, outputs_, weights_, notes_;
};

class BytesRead final : public Describer {
 public:
  /// `held`: of all experts, with scales as they are stored.
  explicit BytesRead(bool held) : held_(held) {}
  void vector(const Weight& weight, std::int64_t) override { bytes_ += of(weight); }
  void table(const Weight& weight, std::int64_t) override { bytes_ += of_rows(weight, 1); }
  void matrix(const Weight& weight, std::int64_t, std::int64_t, std::int64_t rows_read) override {
    bytes_ += of_rows(weight, rows_read);
  }
  void experts(std::span<const Weight> weights, std::int64_t, std::int64_t, int chosen) override {
    const std::int64_t read = held_ ? std::ssize(weights) : chosen;
    if (!weights.empty()) bytes_ += of(weights.front()) * read;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t of(const Weight& weight) const { return held_ ? weight.bytes() : least_bytes(weight); }
  std::int64_t of_rows(const Weight& weight, std::int64_t rows) const {
    return weight.rows > 0 ? of(weight) / weight.rows * rows : 0;
  }
  bool held_;
  std::int64_t bytes_ = 0;
};

std::int64_t bytes_of(const Program& program, bool held) {
  BytesRead read(held);
  for (const Instruction& instruction : program.instructions()) describe(instruction, read);
  return read.bytes();
}

}  // namespace

std::int64_t Program::bytes_per_step() const { return bytes_of(*this, false); }
std::int64_t Program::bytes_held() const { return bytes_of(*this, true); }

const Capture* find_capture(const Program& program, std::string_view name) {
  for (const Instruction& instruction : program.instructions()) {
    const auto* capture = std::get_if<Capture>(&instruction);
    if (capture != nullptr && capture->name == name) return capture;
  }
  return nullptr;
}

std::string to_text(const Program& program) {
  std::string text;
  int number = 0;
  if (program.max_weight_bits() > 0)
    text += fmt::format("matrices in at most {} bits\n", program.max_weight_bits());
  for (const Instruction& instruction : program.instructions()) {
    Text line;
    describe(instruction, line);
    text += fmt::format("{:4}  {:<10}  {}\n", number++, instruction_name(instruction), line.text());
  }
  return text;
}

}  // namespace ft
