#include "backends/split/tensor_executable.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "backends/host_rows.h"
#include "backends/split/row_runs.h"
#include "backends/split/state.h"
#include "sampling/sample.h"

namespace ft::split {
namespace {

/// Memory of a row that outlives its stage.
struct HeldRow {
  RowStore* rows = nullptr;
  RowBorder* border = nullptr;  // null: the host never sees them
};

/// Memory of rows of one rank, used in turn by rows of one width.
class HeldRows {
 public:
  Status hold(Backend& backend, const std::vector<RankRow>& rows, int capacity) {
    std::vector<const RankRow*> order;
    for (const RankRow& row : rows) order.push_back(&row);
    std::ranges::stable_sort(order, {}, &RankRow::first);
    held_.resize(rows.size());
    for (const RankRow* row : order) {
      FT_ASSIGN(held_[static_cast<std::size_t>(row - rows.data())], take(backend, *row, capacity));
    }
    return {};
  }
  const HeldRow& at(int number) const { return held_[static_cast<std::size_t>(number)]; }

 private:
  struct Store {
    int width = 0, last = 0;
    bool crosses = false;
    std::unique_ptr<RowStore> rows;
    std::unique_ptr<RowBorder> border;
    HeldRow held() const { return {crosses ? &border->rows() : rows.get(), border.get()}; }
  };

  Result<HeldRow> take(Backend& backend, const RankRow& row, int capacity) {
    for (Store& store : stores_) {
      if (store.width != row.row.width || store.crosses != row.crosses || store.last >= row.first) continue;
      store.last = row.last;
      return store.held();
    }
    Store store{row.row.width, row.last, row.crosses, {}, {}};
    if (row.crosses) {
      FT_ASSIGN(store.border, backend.make_border(row.row.width, capacity));
    } else {
      FT_ASSIGN(store.rows, backend.make_rows(row.row.width, capacity));
    }
    stores_.push_back(std::move(store));
    return stores_.back().held();
  }

  std::vector<Store> stores_;
  std::vector<HeldRow> held_;  // [RankPart::rows]
};

class TensorExecutable final : public Executable {
 public:
  TensorExecutable(Ranks ranks, std::vector<PartOf> parts, RankGroup& group, const CompileOptions& options)
      : ranks_(std::move(ranks)),
        parts_(std::move(parts)),
        group_(group),
        options_(options),
        of_(parts_.size()),
        work_([this](int rank) { guarded(rank); }) {
    options_.profiler = nullptr;  // its times would be of other programs
    identity_.resize(static_cast<std::size_t>(options.max_rows));
    std::iota(identity_.begin(), identity_.end(), 0);
    tokens_.reserve(identity_.size());
  }

  ~TensorExecutable() override { group_.settle(); }

  Status build() {
    std::size_t widest = 0;
    for (const RankExchange& exchange : ranks_.exchanges) {
      for (const RankColumns& columns : exchange.from)
        widest = std::max(widest, static_cast<std::size_t>(width_of(columns)));
    }
    group_.reserve(widest * identity_.size());
    for (std::size_t r = 0; r < of_.size(); ++r) FT_TRY(build(r));
    if (ranks_.plan.cuts_head) {
      for (const Rank& rank : of_) vocabulary_ += rank.answers->vocabulary();
      const auto rows = static_cast<std::size_t>(options_.max_logit_rows);
      logits_.resize(rows * static_cast<std::size_t>(vocabulary_));
      sampled_.resize(rows);
      scratch_.reserve(static_cast<std::size_t>(vocabulary_));
    }
    return {};
  }

  void submit(const StepArgs& args, State& state) override {
    args_ = &args, state_ = static_cast<SplitState*>(&state);
    rows_ = 0;
    for (const Segment& segment : args.segments) rows_ += segment.rows;
    group_.run(work_);
    keep_captures(args.capture);
    result_ = {};
    if (ranks_.plan.cuts_head) answer(args);
  }
  StepResult collect() override {
    const StepResult first = of_[0].last->collect();
    if (ranks_.plan.cuts_head) return result_;
    return of_[0].answers == nullptr || of_[0].answers == of_[0].last ? first : of_[0].answers->collect();
  }
  StepResult run(const StepArgs& args, State& state) override {
    submit(args, state);
    return collect();
  }
  int vocabulary() const override {
    return ranks_.plan.cuts_head || of_[0].answers == nullptr ? vocabulary_ : of_[0].answers->vocabulary();
  }
  std::span<const std::int32_t> ids() const override {
    if (ranks_.plan.cuts_head || of_[0].answers == nullptr) return {};
    return of_[0].answers->ids();
  }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override {
    if (of_[0].answers != nullptr) of_[0].answers->add_draft_tokens(tokens);
  }
  void walk_candidates(std::size_t row, std::int32_t predecessor, std::span<const std::uint32_t> mask,
                       WalkCandidates& out) const override {
    of_[0].answers->walk_candidates(row, predecessor, mask, out);
  }
  std::int64_t packed_bytes() const override {
    std::int64_t bytes = 0;
    for (const Rank& rank : of_) {
      for (const auto& stage : rank.stages) bytes += stage ? stage->packed_bytes() : 0;
    }
    return bytes;
  }

 private:
  struct Rank {
    HeldRows held;
    std::vector<std::unique_ptr<Executable>> stages;  // null: nothing to do
    std::vector<int> sent, made;                      // by exchange, in RankPart::rows; sent < 0: nothing
    Executable* last = nullptr;                       // of the stages
    Executable* answers = nullptr;                    // null: the program has no logits
    std::span<const float> logits;                    // of the step, with a cut head
  };

  static int find(const std::vector<RankRow>& rows, Row row) {
    if (row.id < 0) return -1;
    return static_cast<int>(std::ranges::find(rows, row.id, [](const RankRow& one) { return one.row.id; }) -
                            rows.begin());
  }

  Status build(std::size_t number) {
    Rank& rank = of_[number];
    const RankPart& part = ranks_.parts[number];
    Backend& backend = *parts_[number].backend;
    FT_TRY(rank.held.hold(backend, part.rows, options_.max_rows));
    for (const RankStage& stage : part.stages) {
      rank.stages.emplace_back();
      if (stage.program.instructions().empty()) continue;
      FT_ASSIGN(rank.stages.back(), backend.compile(stage.program, options_));
      rank.last = rank.stages.back().get();
      if (stage.answers) rank.answers = rank.last;
    }
    for (const RankExchange& exchange : ranks_.exchanges) {
      rank.sent.push_back(find(part.rows, exchange.sent[number]));
      rank.made.push_back(find(part.rows, exchange.made[number]));
    }
    return {};
  }

  void guarded(int rank) {
    try {
      step(rank);
    } catch (const BackendLost& lost) {
      const std::string& name = parts_[static_cast<std::size_t>(rank)].name;
      const std::string_view why = lost.what();
      throw BackendLost(why.starts_with("device ") ? std::string(why) : name + ": " + std::string(why));
    }
  }

  /// All stages of one rank.
  void step(int number) {
    const auto r = static_cast<std::size_t>(number);
    Rank& rank = of_[r];
    const RankPart& part = ranks_.parts[r];
    for (std::size_t s = 0; s < part.stages.size(); ++s) {
      if (rank.stages[s]) submit_stage(rank, part.stages[s], *rank.stages[s], state_->part(number));
      if (s == ranks_.exchanges.size()) break;
      RowBorder& made = *rank.held.at(rank.made[s]).border;
      std::span<const float> sent;
      if (rank.sent[s] >= 0) {
        sent = rank.held.at(rank.sent[s]).border->fetch(rows_);
      } else {
        (void)made.fetch(0);  // no stage reads the row that was there before
      }
      group_.exchange(number, ranks_.exchanges[s], rows_, sent, made.fill(rows_));
      made.send(rows_);
    }
    if (ranks_.plan.cuts_head) rank.logits = rank.answers->collect().logits;
  }

  void submit_stage(const Rank& rank, const RankStage& stage, Executable& executable, State& state) const {
    const StepArgs& args = *args_;
    StepArgs own;
    own.segments = args.segments, own.coordinates = args.coordinates, own.round_tokens = args.round_tokens;
    own.logits = stage.answers && (args.logits || ranks_.plan.cuts_head);
    if (stage.needs_tokens) own.tokens = args.tokens, own.embeddings = args.embeddings;
    if (stage.answers) own.logit_rows = args.logit_rows;
    if (stage.answers && !ranks_.plan.cuts_head) own.samples = args.samples;
    if (stage.takes_hidden) own.hidden = args.hidden, own.more_hidden = args.more_hidden;
    const std::span<const std::int32_t> places = std::span(identity_).first(static_cast<std::size_t>(rows_));
    for (std::size_t i = 0; i < stage.inputs.size(); ++i)
      own.more_hidden[i] = rank.held.at(stage.inputs[i]).rows;
    if (!stage.inputs.empty()) own.hidden = {own.more_hidden[0], places};
    if (!stage.outputs.empty()) own.capture.places = places;
    for (std::size_t i = 0; i < stage.outputs.size(); ++i)
      own.capture.stores[i] = rank.held.at(stage.outputs[i]).rows;
    executable.submit(own, state);
  }

  /// Captured rows go to their places on the first rank.
  void keep_captures(const CapturePlaces& to) {
    for (const Capture& capture : ranks_.captures) {
      RowStore* const store = to.stores[static_cast<std::size_t>(capture.number)];
      if (store == nullptr) continue;
      const HeldRow& from = of_[0].held.at(find(ranks_.parts[0].rows, capture.in));
      each_run(to.places,
               [&](int row, std::int32_t place, int rows) { store->copy(*from.rows, row, place, rows); });
    }
  }

  /// Logits of all ranks side by side, and the samples.
  void answer(const StepArgs& args) {
    const auto width = static_cast<std::size_t>(vocabulary_);
    std::size_t column = 0;
    for (const Rank& rank : of_) {
      const auto own = static_cast<std::size_t>(rank.answers->vocabulary());
      for (std::size_t w = 0; w < args.logit_rows.size(); ++w)
        std::ranges::copy(rank.logits.subspan(w * own, own),
                          logits_.begin() + static_cast<std::ptrdiff_t>(w * width + column));
      column += own;
    }
    if (args.logits) result_.logits = {logits_.data(), args.logit_rows.size() * width};
    if (args.samples.empty()) return;
    tokens_.assign(args.tokens.begin(), args.tokens.end());
    for (std::int32_t& token : tokens_) token = resolved(args, token);
    for (std::size_t w = 0; w < args.samples.size(); ++w) {
      const SampleRow& row = args.samples[w];
      sampled_[w] = ft::sample(std::span<const float>(logits_).subspan(w * width, width), {}, row, scratch_,
                               drafts_of(args, tokens_, w));
      if (row.store >= 0) args.round_tokens[static_cast<std::size_t>(row.store)] = sampled_[w];
    }
    result_.sampled = {sampled_.data(), args.samples.size()};
  }

  Ranks ranks_;
  std::vector<PartOf> parts_;
  RankGroup& group_;
  CompileOptions options_;
  std::vector<Rank> of_;
  std::function<void(int)> work_;
  std::vector<std::int32_t> identity_;
  // Of the step:
  const StepArgs* args_ = nullptr;
  SplitState* state_ = nullptr;
  int rows_ = 0;
  // With a cut head:
  int vocabulary_ = 0;
  std::vector<float> logits_;          // [max_logit_rows, vocabulary]
  std::vector<std::int32_t> sampled_;  // [max_logit_rows]
  std::vector<std::int32_t> tokens_;   // of the step, resolved
  SampleScratch scratch_;
  StepResult result_;
};

}  // namespace

Result<std::unique_ptr<Executable>> make_tensor_executable(Ranks ranks, std::vector<PartOf> parts,
                                                           RankGroup& group, const CompileOptions& options) {
  auto executable = std::make_unique<TensorExecutable>(std::move(ranks), std::move(parts), group, options);
  FT_TRY(executable->build());
  return std::unique_ptr<Executable>(std::move(executable));
}

}  // namespace ft::split
