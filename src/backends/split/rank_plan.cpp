#include "backends/split/rank_plan.h"

#include <algorithm>
#include <fmt/format.h>

namespace ft::split {
namespace {

enum class Form : std::uint8_t {
  kWhole,  // on each rank
  kFree,   // of a linear or computed column by column from such rows: any columns
  kFixed,  // by heads
};

class RankPlanner {
 public:
  RankPlanner(const Program& program, int ranks, const std::vector<bool>* cut_caches)
      : program_(program),
        forms_(static_cast<std::size_t>(program.row_count()), Form::kWhole),
        routed_(forms_.size()),
        cut_caches_(program.layout().caches.size()) {
    if (cut_caches != nullptr) cut_caches_ = *cut_caches;
    plan_.ranks = ranks;
    plan_.rows.resize(forms_.size());
    plan_.heads.resize(program.instructions().size());
  }

  Result<RankPlan> run(bool host_head) {
    const auto& list = program_.instructions();
    for (const Instruction& instruction : list) {
      if (const auto* route = std::get_if<TopKRouter>(&instruction))
        routed_[static_cast<std::size_t>(route->scores.id)] = true;
    }
    for (at_ = 0; at_ < list.size(); ++at_) {
      std::visit([this](const auto& op) { form(op); }, list[at_]);
      FT_TRY(problem_);
    }
    for (at_ = list.size(); at_-- > 0;) std::visit([this](const auto& op) { wish(op); }, list[at_]);
    plan_.cuts_head = host_head && has_plain_head();
    return std::move(plan_);
  }

 private:
  Form& form_of(Row row) { return forms_[static_cast<std::size_t>(row.id)]; }
  Layout& layout_of(Row row) { return plan_.rows[static_cast<std::size_t>(row.id)]; }

  void fix(Row row, Layout layout) { form_of(row) = Form::kFixed, layout_of(row) = std::move(layout); }

  // Forward: forms, and the columns of rows by heads.

  template <class Op>
  void form(const Op& /*op*/) {}
  void form(const Linear& op) {
    for (const Row out : op.outs) {
      const bool whole = out.width < plan_.ranks || routed_[static_cast<std::size_t>(out.id)];
      form_of(out) = whole ? Form::kWhole : Form::kFree;
    }
  }
  void form(const Attention& op) {
    auto heads = cut_heads(op.heads, op.kv_heads, plan_.ranks);
    auto cut = cut_caches_.begin() + op.cache;
    if (!op.shared) *cut = heads.has_value();
    if (*cut && !heads) {
      problem_ = Error{Code::kUnsupported,
                       fmt::format("--split tensor: {} heads read keys and values that {} devices have by "
                                   "heads; use fewer devices, or another --drafter",
                                   op.heads, plan_.ranks)};
    }
    if (!*cut || !heads) return;
    fix(op.out, query_layout(*heads, op.head_dim));
    plan_.heads[at_] = std::move(*heads);
  }
  void form(const DeltaRule& op) {
    auto heads = cut_heads(op.value_heads, op.key_heads, plan_.ranks);
    if (!heads) return;
    fix(op.out, query_layout(*heads, op.value_dim));
    plan_.heads[at_] = std::move(*heads);
  }
  void form(const GatedNorm& op) {
    const Layout& layout = layout_of(op.in);
    const bool joins =
        form_of(op.gate) == Form::kFree || (form_of(op.gate) == Form::kFixed && layout_of(op.gate) == layout);
    if (form_of(op.in) == Form::kFixed && joins && is_aligned(layout, static_cast<int>(op.weight.cols)))
      fix(op.out, Layout(layout));
  }
  void form(const CausalConv1d& op) { by_columns(op.out, {op.in}); }
  void form(const Swiglu& op) { by_columns(op.out, {op.gate, op.up}); }
  void form(const Geglu& op) { by_columns(op.out, {op.gate, op.up}); }
  void form(const Add& op) { by_columns(op.out, {op.a, op.b}); }
  void form(const SigmoidGate& op) { by_columns(op.out, {op.in}); }
  void form(const Gelu& op) { by_columns(op.out, {op.in}); }
  void form(const Bias& op) { by_columns(op.out, {op.in}); }
  void form(const Scale& op) { by_columns(op.out, {op.in}); }

  void by_columns(Row out, std::initializer_list<Row> ins) {
    const Layout* fixed = nullptr;
    for (const Row in : ins) {
      if (form_of(in) == Form::kWhole) return;
      if (form_of(in) != Form::kFixed) continue;
      if (fixed != nullptr && *fixed != layout_of(in)) return;
      fixed = &layout_of(in);
    }
    if (fixed == nullptr) {
      form_of(out) = Form::kFree;
    } else {
      fix(out, Layout(*fixed));
    }
  }

  // Backward: a free row gets the columns that its last reader wants.

  void want(Row row, const Layout& layout) {
    if (form_of(row) == Form::kFree && layout_of(row).empty()) layout_of(row) = layout;
  }
  /// The columns of a row that an instruction writes; empty: it is whole.
  const Layout& settle(Row row) {
    if (form_of(row) == Form::kFree) want(row, even_layout(row.width, plan_.ranks));
    return layout_of(row);
  }

  template <class Op>
  void wish(const Op& /*op*/) {}
  void wish(const Linear& op) {
    for (const Row out : op.outs) settle(out);
  }
  void wish(const Attention& op) {
    const std::vector<RankHeads>& heads = plan_.heads[at_];
    if (heads.empty()) return;
    want(op.q, query_layout(heads, op.head_dim * (op.gated ? 2 : 1)));
    if (op.shared) return;
    want(op.k, key_layout(heads, op.head_dim));
    want(op.v, key_layout(heads, op.head_dim));
  }
  void wish(const DeltaRule& op) {
    const std::vector<RankHeads>& heads = plan_.heads[at_];
    if (heads.empty()) return;
    want(op.in, delta_layout(heads, op));
    want(op.a, query_layout(heads, 1));
    want(op.b, query_layout(heads, 1));
  }
  void wish(const GatedNorm& op) { wish_alike(op.out, {op.in, op.gate}); }
  void wish(const CausalConv1d& op) { wish_alike(op.out, {op.in}); }
  void wish(const Swiglu& op) { wish_alike(op.out, {op.gate, op.up}); }
  void wish(const Geglu& op) { wish_alike(op.out, {op.gate, op.up}); }
  void wish(const Add& op) { wish_alike(op.out, {op.a, op.b}); }
  void wish(const SigmoidGate& op) { wish_alike(op.out, {op.in}); }
  void wish(const Gelu& op) { wish_alike(op.out, {op.in}); }
  void wish(const Bias& op) { wish_alike(op.out, {op.in}); }
  void wish(const Scale& op) { wish_alike(op.out, {op.in}); }

  void wish_alike(Row out, std::initializer_list<Row> ins) {
    const Layout layout = settle(out);
    if (layout.empty()) return;
    for (const Row in : ins) want(in, layout);
  }

  /// Logits of every token in order, which sample alone reads.
  bool has_plain_head() const {
    const Logits* head = nullptr;
    bool samples = false;
    for (const Instruction& instruction : program_.instructions()) {
      if (std::holds_alternative<Walk>(instruction) || std::holds_alternative<ClusterLogits>(instruction))
        return false;
      samples |= std::holds_alternative<Sample>(instruction);
      if (const auto* logits = std::get_if<Logits>(&instruction)) head = logits;
    }
    return samples && head != nullptr && head->tokens().empty() && head->extra.count == 0 &&
           head->lm_head.rows >= plan_.ranks;
  }

  const Program& program_;
  std::vector<Form> forms_;
  std::vector<bool> routed_;      // by row: the scores of a router
  std::vector<bool> cut_caches_;  // by cache
  RankPlan plan_;
  Status problem_;
  std::size_t at_ = 0;
};

template <class Pick>
Layout layout_by(const std::vector<RankHeads>& heads, const Pick& pick) {
  Layout layout;
  for (const RankHeads& own : heads) layout.push_back(pick(own));
  return layout;
}

}  // namespace

Layout query_layout(const std::vector<RankHeads>& heads, int width) {
  return layout_by(
      heads, [&](const RankHeads& own) { return RankColumns{head_columns(own.first, own.count, width)}; });
}

Layout key_layout(const std::vector<RankHeads>& heads, int width) {
  return layout_by(heads, [&](const RankHeads& own) {
    return RankColumns{head_columns(own.kv_first, own.kv_count, width)};
  });
}

Layout delta_layout(const std::vector<RankHeads>& heads, const DeltaRule& op) {
  const int keys = op.key_heads * op.key_dim;
  return layout_by(heads, [&](const RankHeads& own) {
    return RankColumns{head_columns(own.kv_first, own.kv_count, op.key_dim),
                       head_columns(own.kv_first, own.kv_count, op.key_dim, keys),
                       head_columns(own.first, own.count, op.value_dim, 2 * keys)};
  });
}

Result<RankPlan> plan_ranks(const Program& program, int ranks, bool host_head,
                            const std::vector<bool>* cut_caches) {
  return RankPlanner(program, ranks, cut_caches).run(host_head);
}

std::vector<bool> cut_caches_of(const Program& program, const RankPlan& plan) {
  std::vector<bool> cut(program.layout().caches.size());
  for (std::size_t i = 0; i < plan.heads.size(); ++i) {
    const auto* attend = std::get_if<Attention>(&program.instructions()[i]);
    if (attend != nullptr && !plan.heads[i].empty()) cut[static_cast<std::size_t>(attend->cache)] = true;
  }
  return cut;
}

}  // namespace ft::split
