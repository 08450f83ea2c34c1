#include "program/check.h"

#include <algorithm>
#include <fmt/format.h>

namespace ft {
namespace {

class Checker {
 public:
  explicit Checker(const Program& program)
      : program_(program), written_(static_cast<std::size_t>(program.row_count())) {}

  Status run() {
    for (const Instruction& instruction : program_.instructions()) {
      std::visit([this](const auto& i) { (*this)(i); }, instruction);
      if (!problem_.empty()) {
        return Error{Code::kInvalid, fmt::format("program: instruction {} ({}): {}", number_,
                                                 instruction_name(instruction), problem_)};
      }
      ++number_;
    }
    if (spare_ && !selects_) {  // which puts them in order
      return Error{Code::kInvalid, "program: it has spare columns of logits and no select"};
    }
    return {};
  }

  void operator()(const Embed& i) {
    matrix(i.table, i.table.rows, i.out.width);
    write(i.out);
  }
  void operator()(const Input& i) { write(i.out); }
  void operator()(const Norm& i) {
    read(i.in);
    matrix(i.weight, 1, i.in.width);
    write(i.out);
  }
  void operator()(const Linear& i) {
    read(i.in);
    require(!i.weights.empty() && i.weights.size() == i.outs.size(), "needs one output a weight");
    for (std::size_t j = 0; j < i.weights.size() && j < i.outs.size(); ++j) {
      matrix(i.weights[j], i.outs[j].width, i.in.width);
      write(i.outs[j]);
    }
  }
  void operator()(const Attend& i) {
    read(i.q);
    read(i.k);
    read(i.v);
    require(i.heads > 0 && i.kv_heads > 0 && i.head_dim > 0 && i.heads % i.kv_heads == 0,
            "wrong head counts");
    width(i.q, i.heads * i.head_dim * (i.gated ? 2 : 1));
    width(i.k, i.kv_heads * i.head_dim);
    width(i.v, i.kv_heads * i.head_dim);
    require(i.rotary >= 0 && i.rotary % 2 == 0 && i.rotary <= i.head_dim, "wrong rotary width");
    require(static_cast<int>(i.inverse_frequencies.size()) == i.rotary / 2, "wrong number of frequencies");
    if (!i.q_norm.empty()) matrix(i.q_norm, 1, i.head_dim);
    if (!i.k_norm.empty()) matrix(i.k_norm, 1, i.head_dim);
    write(i.out);
  }
  void operator()(const Conv& i) {
    read(i.in);
    matrix(i.kernel, i.in.width, i.taps);
    require(i.taps >= 1 && i.taps <= 8, "takes 1 to 8 taps");
    write(i.out);
  }
  void operator()(const DeltaRule& i) {
    read(i.in);
    read(i.a);
    read(i.b);
    require(i.key_heads > 0 && i.value_heads > 0 && i.value_heads % i.key_heads == 0, "wrong head counts");
    width(i.in, 2 * i.key_heads * i.key_dim + i.value_heads * i.value_dim);
    width(i.a, i.value_heads);
    width(i.b, i.value_heads);
    matrix(i.a_log, 1, i.value_heads);
    matrix(i.dt_bias, 1, i.value_heads);
    write(i.out);
  }
  void operator()(const GatedNorm& i) {
    read(i.in);
    read(i.gate);
    width(i.gate, i.in.width);
    require(i.weight.cols > 0 && i.in.width % i.weight.cols == 0, "row is no multiple of the norm's width");
    write(i.out);
  }
  void operator()(const Swiglu& i) { pair(i.gate, i.up, i.out, i.gate.width, i.gate.width); }
  void operator()(const Geglu& i) { pair(i.gate, i.up, i.out, i.gate.width, i.gate.width); }
  void operator()(const Add& i) { pair(i.a, i.b, i.out, i.a.width, i.a.width); }
  void operator()(const Concat& i) { pair(i.a, i.b, i.out, i.b.width, i.a.width + i.b.width); }
  void operator()(const Tap& i) { read(i.in); }
  void operator()(const Logits& i) {
    read(i.in);
    matrix(i.head, i.head.rows, i.in.width);
    for (const std::int32_t id : i.ids)
      require(id >= 0 && id < i.head.rows, "a listed id is outside the head");
    for (std::size_t j = 1; j < i.ids.size(); ++j) require(i.ids[j - 1] < i.ids[j], "ids must ascend");
    spare_ids(i);
    logits_ = true;
  }
  void operator()(const Select&) {
    require(logits_, "has no logits before it");
    selects_ = true;
  }

 private:
  void require(bool good, std::string_view problem) {
    if (!good && problem_.empty()) problem_ = problem;
  }
  void spare_ids(const Logits& i) {
    const std::vector<std::int32_t>& always = i.spare.always;
    const std::int64_t left = i.ids.empty() ? 0 : i.head.rows - i.ids.back() - 1;  // ids that may be spare
    require(i.spare.count >= 0 && i.spare.count <= std::min<std::int64_t>(left, kMaxSpare),
            "has more spare columns than ids behind the listed ones, or than can be counted");
    require(std::ssize(always) <= i.spare.count, "has fewer spare columns than ids that always have one");
    for (std::size_t j = 0; j < always.size(); ++j) {
      const std::int32_t before = j > 0 ? always[j - 1] : i.ids.empty() ? -1 : i.ids.back();
      require(always[j] > before && always[j] < i.head.rows,
              "an id that always has a spare column is listed already, out of order or outside the head");
    }
    spare_ = i.spare.count > 0;
  }
  bool known(Row row) const { return row.id >= 0 && row.id < program_.row_count() && row.width > 0; }
  void read(Row row) {
    require(known(row) && written_[static_cast<std::size_t>(row.id)], "reads a row that nothing has written");
  }
  void write(Row row) {
    require(known(row), "writes an unknown row");
    if (known(row)) written_[static_cast<std::size_t>(row.id)] = true;
  }
  void width(Row row, int expected) {
    if (row.width == expected || !problem_.empty()) return;
    problem_ = fmt::format("row r{} is {} wide, expected {}", row.id, row.width, expected);
  }
  void matrix(const Weight& weight, std::int64_t rows, std::int64_t cols) {
    require(!weight.empty(), "has no weight");
    if (!problem_.empty()) return;
    if (weight.rows != rows || weight.cols != cols) {
      problem_ =
          fmt::format("{} is {}x{}, expected {}x{}", weight.name, weight.rows, weight.cols, rows, cols);
    } else if (weight.quantised() && (weight.group <= 0 || weight.cols % weight.group != 0)) {
      problem_ = fmt::format("{} has {} columns, no multiple of its group {}", weight.name, weight.cols,
                             weight.group);
    }
  }
  void pair(Row a, Row b, Row out, int b_width, int out_width) {
    read(a);
    read(b);
    width(b, b_width);
    width(out, out_width);
    write(out);
  }

  const Program& program_;
  std::vector<bool> written_;
  std::string problem_;
  int number_ = 0;
  bool logits_ = false, spare_ = false, selects_ = false;
};

}  // namespace

Status check(const Program& program) { return Checker(program).run(); }

}  // namespace ft
