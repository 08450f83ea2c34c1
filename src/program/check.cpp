#include "program/check.h"

#include <fmt/format.h>

namespace ft {
namespace {

bool writes_state(const Instruction& instruction) {
  if (const auto* attend = std::get_if<Attention>(&instruction)) return !attend->shared;
  return std::holds_alternative<CausalConv1d>(instruction) || std::holds_alternative<DeltaRule>(instruction);
}

class Checker final : public Describer {
 public:
  explicit Checker(const Program& program)
      : program_(program), written_(static_cast<std::size_t>(program.row_count())) {}

  Status run() {
    bool has_extra = false, walks = false;
    for (const Instruction& instruction : program_.instructions()) {
      describe(instruction, *this);
      if (program_.reads_only())
        require(!writes_state(instruction), "writes state that is another program's");
      if (!problem_.empty()) {
        return Error{Code::kInvalid, fmt::format("program: instruction {} ({}): {}", number_,
                                                 instruction_name(instruction), problem_)};
      }
      if (const auto* logits = std::get_if<Logits>(&instruction)) has_extra |= logits->extra.count > 0;
      walks |= std::holds_alternative<Walk>(instruction);
      ++number_;
    }
    if (has_extra && (!samples_ || walks)) {  // sample puts them in order
      return Error{Code::kInvalid, "program: it has extra columns of logits and no sample"};
    }
    return {};
  }

  void reads(Row row, int width, Granularity /*granularity*/) override {
    require(known(row) && written_[static_cast<std::size_t>(row.id)], "reads a row that nothing has written");
    expect_width(row, width);
  }
  void writes(Row row, int width, Granularity /*granularity*/) override {
    require(known(row), "writes an unknown row");
    expect_width(row, width);
    if (known(row)) written_[static_cast<std::size_t>(row.id)] = true;
  }
  void reads_logits() override {
    require(logits_, "has no logits before it");
    samples_ = true;
  }
  void writes_logits(std::int64_t /*columns*/) override { logits_ = true; }
  void vector(const Weight& weight, std::int64_t size) override {
    require(!weight.empty(), "has no weight");
    if (problem_.empty() && weight.rows * weight.cols != size) {
      problem_ = fmt::format("{} is {}x{}, expected {} values", weight.name, weight.rows, weight.cols, size);
    }
  }
  void table(const Weight& weight, std::int64_t cols) override {
    matrix(weight, weight.rows, cols, weight.rows);
  }
  void matrix(const Weight& weight, std::int64_t rows, std::int64_t cols, std::int64_t /*read*/) override {
    require(!weight.empty(), "has no weight");
    if (!problem_.empty()) return;
    if (weight.rows != rows || weight.cols != cols) {
      problem_ =
          fmt::format("{} is {}x{}, expected {}x{}", weight.name, weight.rows, weight.cols, rows, cols);
    } else if (weight.quantised() && (weight.group <= 0 || weight.cols % weight.group != 0)) {
      problem_ = fmt::format("{} has {} columns, not a multiple of its group {}", weight.name, weight.cols,
                             weight.group);
    }
  }
  void cache(int cache, int kv_heads, int head_dim) override {
    const auto& caches = program_.layout().caches;
    require(cache >= 0 && cache < std::ssize(caches), "reads a cache that no attend appends to");
    if (!problem_.empty()) return;
    const StateLayout::Cache& layer = caches[static_cast<std::size_t>(cache)];
    require(layer.kv_heads == kv_heads && layer.head_dim == head_dim, "reads a cache of another shape");
  }
  void require(bool holds, std::string_view problem) override {
    if (!holds && problem_.empty()) problem_ = problem;
  }

 private:
  bool known(Row row) const { return row.id >= 0 && row.id < program_.row_count() && row.width > 0; }
  void expect_width(Row row, int expected) {
    if (row.width == expected || !problem_.empty()) return;
    problem_ = fmt::format("row r{} is {} wide, expected {}", row.id, row.width, expected);
  }

  const Program& program_;
  std::vector<bool> written_;
  std::string problem_;
  int number_ = 0;
  bool logits_ = false, samples_ = false;
};

}  // namespace

Status check(const Program& program) { return Checker(program).run(); }

}  // namespace ft
