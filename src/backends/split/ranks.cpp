#include "backends/split/ranks.h"

#include <fmt/format.h>

#include "backends/split/rank_stages.h"

namespace ft::split {
namespace {

/// Writes the programs of all ranks, instruction by instruction.
class RankCutter {
 public:
  RankCutter(const Program& program, RankPlan plan, const std::vector<StateLayout>& over)
      : program_(program) {
    ranks_.plan = std::move(plan);
    for (int r = 0; r < ranks_.plan.ranks; ++r) {
      Rank rank;
      if (!over.empty()) rank.list = Program::over(over[static_cast<std::size_t>(r)]);
      rank.list.set_max_weight_bits(program.max_weight_bits());
      rank.whole.resize(static_cast<std::size_t>(program.row_count()));
      rank.cut = rank.whole;
      of_.push_back(std::move(rank));
    }
  }

  Result<Ranks> run() {
    const auto& list = program_.instructions();
    for (at_ = 0; at_ < list.size(); ++at_) std::visit([this](const auto& op) { put(op); }, list[at_]);
    for (Rank& rank : of_) {
      ranks_.parts.push_back({std::move(rank.list), {}, {}});
      begins_.push_back(std::move(rank.begins));
    }
    FT_TRY(make_stages(ranks_, begins_));
    return std::move(ranks_);
  }

 private:
  struct Rank {
    Program list;
    std::vector<Row> whole, cut;      // by row of the whole program; id < 0: not there
    std::vector<std::size_t> begins;  // by exchange: where the stage after it begins in `list`
  };

  Rank& rank(int number) { return of_[static_cast<std::size_t>(number)]; }
  static Row& in(std::vector<Row>& rows, Row row) { return rows[static_cast<std::size_t>(row.id)]; }
  int count() const { return ranks_.plan.ranks; }
  bool is_first(const Rank& one) const { return &one == &of_.front(); }
  const Layout& layout_of(Row row) const { return ranks_.plan.of(row); }
  const std::vector<RankHeads>& heads() const { return ranks_.plan.heads[at_]; }

  /// Every rank has the whole row from now on.
  void make_whole(Row row) {
    if (in(of_[0].whole, row).id >= 0) return;
    const Layout& planned = layout_of(row);
    RankExchange exchange{row.width, planned.empty() ? first_only(row.width, count()) : planned, {}, {}};
    for (Rank& one : of_) {
      exchange.sent.push_back(in(one.cut, row));
      one.begins.push_back(one.list.instructions().size());
      exchange.made.push_back(in(one.whole, row) = one.list.input(row.width));
    }
    ranks_.exchanges.push_back(std::move(exchange));
  }

  /// Every rank has these columns of the row; returns them. An empty layout: the whole row.
  std::vector<Row> take(Row row, const Layout& layout) {
    std::vector<Row> taken;
    const bool there = !layout.empty() && layout_of(row) == layout;
    if (!there) make_whole(row);
    for (int r = 0; r < count(); ++r) {
      Rank& one = rank(r);
      if (there || layout.empty()) {
        taken.push_back(in(there ? one.cut : one.whole, row));
        continue;
      }
      std::vector<Row> parts;
      for (const Columns& columns : layout[static_cast<std::size_t>(r)])
        parts.push_back(one.list.append(Slice{in(one.whole, row), columns.first, columns.width, {}}));
      taken.push_back(join(one, parts));
    }
    return taken;
  }

  static Row join(Rank& one, const std::vector<Row>& parts) {
    Row joined = parts.front();
    for (std::size_t i = 1; i < parts.size(); ++i) joined = one.list.concat(joined, parts[i]);
    return joined;
  }

  void give(Rank& one, Row row, const Layout& layout, Row made) {
    in(layout.empty() ? one.whole : one.cut, row) = made;
  }

  /// The instruction on each rank, with its rows, after change(rank's instruction, rank).
  template <class Op, class Change>
  void put_with(const Op& op, std::initializer_list<std::pair<Row Op::*, Layout>> ins, const Layout& out,
                const Change& change) {
    std::vector<std::pair<Row Op::*, std::vector<Row>>> taken;
    for (const auto& [member, layout] : ins) taken.emplace_back(member, take(op.*member, layout));
    for (int r = 0; r < count(); ++r) {
      Op own = op;
      for (const auto& [member, rows] : taken) own.*member = rows[static_cast<std::size_t>(r)];
      change(own, r);
      give(rank(r), op.out, out, rank(r).list.append(std::move(own)));
    }
  }
  template <class Op>
  void put_whole(const Op& op, std::initializer_list<Row Op::*> ins) {
    std::vector<std::pair<Row Op::*, std::vector<Row>>> taken;
    for (const auto member : ins) taken.emplace_back(member, take(op.*member, {}));
    for (int r = 0; r < count(); ++r) {
      Op own = op;
      for (const auto& [member, rows] : taken) own.*member = rows[static_cast<std::size_t>(r)];
      in(rank(r).whole, op.out) = rank(r).list.append(std::move(own));
    }
  }
  template <class Op>
  void put_columns(const Op& op, std::initializer_list<Row Op::*> ins) {
    const Layout& layout = layout_of(op.out);
    std::vector<std::pair<Row Op::*, std::vector<Row>>> taken;
    for (const auto member : ins) taken.emplace_back(member, take(op.*member, layout));
    for (int r = 0; r < count(); ++r) {
      Op own = op;
      for (const auto& [member, rows] : taken) own.*member = rows[static_cast<std::size_t>(r)];
      if constexpr (requires { own.bias; }) {
        if (!layout.empty()) own.bias = values_for(op.bias, layout[static_cast<std::size_t>(r)]);
      }
      if constexpr (requires { own.kernel; }) {
        if (!layout.empty()) own.kernel = values_for(op.kernel, layout[static_cast<std::size_t>(r)]);
      }
      give(rank(r), op.out, layout, rank(r).list.append(std::move(own)));
    }
  }

  template <class Op>
  void put_first(const Op& op) {
    in(of_[0].cut, op.out) = of_[0].list.append(op);
    make_whole(op.out);
  }
  void put(const Embed& op) { put_first(op); }
  void put(const Input& op) { put_first(op); }
  void put(const Norm& op) { put_whole(op, {&Norm::in}); }
  void put(const LayerNorm& op) { put_whole(op, {&LayerNorm::in}); }
  void put(const LocalConv& op) { put_whole(op, {&LocalConv::in, &LocalConv::coefficients}); }
  void put(const TopKRouter& op) { put_whole(op, {&TopKRouter::scores}); }
  void put(const MoeMlp& op) { put_whole(op, {&MoeMlp::in, &MoeMlp::routes}); }
  void put(const Concat& op) { put_whole(op, {&Concat::a, &Concat::b}); }
  void put(const Slice& op) { put_whole(op, {&Slice::in}); }
  void put(const CausalConv1d& op) { put_columns(op, {&CausalConv1d::in}); }
  void put(const Swiglu& op) { put_columns(op, {&Swiglu::gate, &Swiglu::up}); }
  void put(const Geglu& op) { put_columns(op, {&Geglu::gate, &Geglu::up}); }
  void put(const Add& op) { put_columns(op, {&Add::a, &Add::b}); }
  void put(const Gelu& op) { put_columns(op, {&Gelu::in}); }
  void put(const Bias& op) { put_columns(op, {&Bias::in}); }
  void put(const Scale& op) { put_columns(op, {&Scale::in}); }
  void put(const GatedNorm& op) { put_columns(op, {&GatedNorm::in, &GatedNorm::gate}); }
  void put(const SigmoidGate& op) {
    const Layout& layout = layout_of(op.out);
    put_with(op, {{&SigmoidGate::in, layout}, {&SigmoidGate::gate, {}}}, layout, [](SigmoidGate&, int) {});
  }

  void put(const Linear& op) {
    const std::vector<Row> rows = take(op.in, {});
    for (int r = 0; r < count(); ++r) {
      std::vector<Weight> weights;
      for (std::size_t j = 0; j < op.weights.size(); ++j) {
        const Layout& layout = layout_of(op.outs[j]);
        if (layout.empty()) weights.push_back(op.weights[j]);
        for (std::size_t part = 0; !layout.empty() && part < columns_of(layout, r).size(); ++part)
          weights.push_back(rows_for(op.weights[j], columns_of(layout, r)[part]));
      }
      const std::vector<Row> made =
          rank(r).list.linear(rows[static_cast<std::size_t>(r)], std::move(weights));
      std::size_t next = 0;
      for (const Row out : op.outs) {
        const Layout& layout = layout_of(out);
        const std::size_t parts = layout.empty() ? 1 : columns_of(layout, r).size();
        give(rank(r), out, layout,
             join(rank(r), {made.begin() + static_cast<std::ptrdiff_t>(next),
                            made.begin() + static_cast<std::ptrdiff_t>(next + parts)}));
        next += parts;
      }
    }
  }
  static const RankColumns& columns_of(const Layout& layout, int r) {
    return layout[static_cast<std::size_t>(r)];
  }

  void put(const Attention& op) {
    const bool cut = !heads().empty();
    const Layout queries = cut ? query_layout(heads(), op.head_dim * (op.gated ? 2 : 1)) : Layout();
    const Layout keys = cut ? key_layout(heads(), op.head_dim) : Layout();
    const Layout out = cut ? query_layout(heads(), op.head_dim) : Layout();
    const auto change = [&](Attention& own, int r) {
      if (!cut) return;
      const RankHeads& part = heads()[static_cast<std::size_t>(r)];
      own.heads = part.count, own.kv_heads = part.kv_count;
      own.sinks = values_for(op.sinks, {{part.first, part.count}});
    };
    if (op.shared) return put_with(op, {{&Attention::q, queries}}, out, change);
    put_with(op, {{&Attention::q, queries}, {&Attention::k, keys}, {&Attention::v, keys}}, out, change);
  }

  void put(const DeltaRule& op) {
    const bool cut = !heads().empty();
    const Layout in = cut ? delta_layout(heads(), op) : Layout();
    const Layout gates = cut ? query_layout(heads(), 1) : Layout();
    const Layout out = cut ? query_layout(heads(), op.value_dim) : Layout();
    put_with(op, {{&DeltaRule::in, in}, {&DeltaRule::a, gates}, {&DeltaRule::b, gates}}, out,
             [&](DeltaRule& own, int r) {
               if (!cut) return;
               const RankHeads& part = heads()[static_cast<std::size_t>(r)];
               own.value_heads = part.count, own.key_heads = part.kv_count;
               own.a_log = values_for(op.a_log, {{part.first, part.count}});
               own.dt_bias = values_for(op.dt_bias, {{part.first, part.count}});
             });
  }

  void put(const Capture& op) {
    make_whole(op.in);
    Capture own = op;
    own.in = in(of_[0].whole, op.in);
    ranks_.captures.push_back(std::move(own));
  }
  void put(const Logits& op) {
    make_whole(op.in);
    const bool cut = ranks_.plan.cuts_head;
    const Layout layout = even_layout(static_cast<int>(op.lm_head.rows), count());
    for (int r = 0; r < (cut ? count() : 1); ++r) {
      Logits own = op;
      own.in = in(rank(r).whole, op.in);
      if (cut) own.lm_head = rows_for(op.lm_head, columns_of(layout, r)[0]);
      rank(r).list.logits(std::move(own));
    }
  }
  void put(const ClusterLogits& op) {
    make_whole(op.in), make_whole(op.routes);
    ClusterLogits own = op;
    own.in = in(of_[0].whole, op.in), own.routes = in(of_[0].whole, op.routes);
    of_[0].list.logits(std::move(own));
  }
  void put(const Sample& /*op*/) {
    if (!ranks_.plan.cuts_head) of_[0].list.sample();
  }
  void put(const Walk& op) {
    Walk own = op;
    if (op.factors.id >= 0) make_whole(op.factors), own.factors = in(of_[0].whole, op.factors);
    of_[0].list.walk(std::move(own));
  }

  const Program& program_;
  std::vector<Rank> of_;
  std::vector<std::vector<std::size_t>> begins_;
  Ranks ranks_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Ranks> cut_over_ranks(const Program& program, RankPlan plan, const std::vector<StateLayout>& over) {
  return RankCutter(program, std::move(plan), over).run();
}

}  // namespace ft::split
