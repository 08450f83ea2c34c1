#include "backends/split/executable.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

#include "backends/host_rows.h"
#include "backends/split/row_runs.h"
#include "backends/split/state.h"

namespace ft::split {
namespace {

/// Rows of a crossing in a part's memory.
struct Place {
  RowStore* rows = nullptr;
  RowBorder* border = nullptr;       // null: the rows never leave the part
  std::uint64_t* read_in = nullptr;  // the part's last stage that was submitted and reads them
};

/// Memory of rows, used in turn by crossings of a part and width whose stages do not overlap.
class PlacePool {
 public:
  Result<Place> take(Backend& backend, int part, int width, bool crosses, int first, int last, int capacity) {
    for (Store& store : stores_) {
      if (store.part != part || store.width != width || store.crosses != crosses || store.last >= first)
        continue;
      store.last = last;
      return place(store);
    }
    Store store{part, width, last, crosses, {}, {}, std::make_unique<std::uint64_t>(0)};
    if (crosses) {
      FT_ASSIGN(store.border, backend.make_border(width, capacity));
    } else {
      FT_ASSIGN(store.rows, backend.make_rows(width, capacity));
    }
    stores_.push_back(std::move(store));
    return place(stores_.back());
  }

 private:
  struct Store {
    int part, width, last;  // last: stage of its last reader
    bool crosses;
    std::unique_ptr<RowStore> rows;
    std::unique_ptr<RowBorder> border;
    std::unique_ptr<std::uint64_t> read_in;
  };
  static Place place(const Store& store) {
    return {store.crosses ? &store.border->rows() : store.rows.get(), store.border.get(),
            store.read_in.get()};
  }
  std::vector<Store> stores_;
};

class SplitExecutable final : public Executable {
 public:
  SplitExecutable(Stages stages, std::vector<PartOf> parts, const CompileOptions& options, bool split_state)
      : stages_(std::move(stages)), parts_(std::move(parts)), options_(options), split_state_(split_state) {
    options_.profiler = nullptr;  // its times would be of other programs
    identity_.resize(static_cast<std::size_t>(options.max_rows));
    std::iota(identity_.begin(), identity_.end(), 0);
    tokens_.resize(identity_.size()), embedded_.resize(identity_.size());
    submitted_.resize(parts_.size()), ended_.resize(parts_.size());
  }

  Status build() {
    for (std::size_t s = 0; s < stages_.list.size(); ++s) {
      const Stage& stage = stages_.list[s];
      if (stage.embeds && embeds_ < 0) embeds_ = stage.part;
      if (stage.answers) answers_ = s;
      FT_ASSIGN(std::unique_ptr<Executable> executable, backend(stage.part).compile(stage.program, options_));
      executables_.push_back(std::move(executable));
    }
    for (const Crossing& crossing : stages_.crossings) FT_TRY(place(crossing));
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      states_.emplace_back();
      if (is_empty(stages_.layout.parts[part])) {
        FT_ASSIGN(states_.back(), parts_[part].backend->make_state({}, {}));
      }
    }
    return find_transfers();
  }

  void submit(const StepArgs& args, State& state) override {
    StepArgs own = args;
    int rows = 0;
    for (const Segment& segment : args.segments) rows += segment.rows;
    own.tokens = tokens_of(args);
    own.embeddings = embeddings_of(args);
    for (std::size_t s = 0; s < stages_.list.size(); ++s) {
      for (const Transfer& transfer : transfers_[s]) move(transfer, rows);
      submit_stage(s, own, rows, state);
      for (const StageCapture& capture : stages_.list[s].captures) {
        if (capture.crossing >= 0) keep(capture, args.capture);
      }
    }
  }
  bool samples_later() const override { return executables_[answers_]->samples_later(); }
  void submit_samples(const StepArgs& args) override {
    StepArgs own = args;
    if (!resolved_.empty()) own.tokens = resolved_;
    guard(stages_.home, [&] { executables_[answers_]->submit_samples(own); });
  }
  StepResult collect() override {
    StepResult result;
    guard(stages_.home, [&] { result = executables_[answers_]->collect(); });
    return result;
  }
  StepResult run(const StepArgs& args, State& state) override {
    submit(args, state);
    return collect();
  }
  int vocabulary() const override { return executables_[answers_]->vocabulary(); }
  std::span<const std::int32_t> ids() const override { return executables_[answers_]->ids(); }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override {
    executables_[answers_]->add_draft_tokens(tokens);
  }
  void walk_candidates(std::size_t row, std::int32_t predecessor, std::span<const std::uint32_t> mask,
                       WalkCandidates& out) const override {
    executables_[answers_]->walk_candidates(row, predecessor, mask, out);
  }
  std::int64_t packed_bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& executable : executables_) bytes += executable->packed_bytes();
    return bytes;
  }

 private:
  /// A crossing that goes to another part before a stage.
  struct Transfer {
    int crossing = 0, part = 0;
  };

  Backend& backend(int part) { return *parts_[static_cast<std::size_t>(part)].backend; }
  Place& place_of(int crossing, int part) {
    return places_[static_cast<std::size_t>(crossing) * parts_.size() + static_cast<std::size_t>(part)];
  }

  template <class Work>
  void guard(int part, const Work& work) {
    try {
      work();
    } catch (const BackendLost& lost) {
      throw BackendLost(parts_[static_cast<std::size_t>(part)].name + ": " + lost.what());
    }
  }

  Status place(const Crossing& crossing) {
    places_.resize(places_.size() + parts_.size());
    const auto number = static_cast<int>(places_.size() / parts_.size()) - 1;
    const bool leaves =
        std::ranges::any_of(crossing.readers, [&](int reader) { return reader != crossing.part; }) ||
        (crossing.captured && crossing.part != stages_.home);
    const auto take = [&](int part, bool crosses) -> Status {
      FT_ASSIGN(place_of(number, part), pool_.take(backend(part), part, crossing.row.width, crosses,
                                                   crossing.stage, crossing.last_stage, options_.max_rows));
      return {};
    };
    FT_TRY(take(crossing.part, leaves));
    for (const int reader : crossing.readers) {
      if (reader != crossing.part) FT_TRY(take(reader, true));
    }
    return {};
  }

  Status find_transfers() {
    std::vector<bool> there(places_.size());
    transfers_.resize(stages_.list.size());
    for (std::size_t s = 0; s < stages_.list.size(); ++s) {
      const int part = stages_.list[s].part;
      for (const int crossing : stages_.list[s].inputs) {
        if (stages_.crossings[static_cast<std::size_t>(crossing)].part == part) continue;
        auto before =
            there[static_cast<std::size_t>(crossing) * parts_.size() + static_cast<std::size_t>(part)];
        if (!before) transfers_[s].push_back({crossing, part});
        before = true;
      }
    }
    const int home = stages_.home;
    if (embeds_ < 0 || embeds_ == home) return {};
    for (const Stage& stage : stages_.list) {
      for (const Instruction& instruction : stage.program.instructions()) {
        const auto* embed = std::get_if<Embed>(&instruction);
        if (embed == nullptr || embedding_border_) continue;
        FT_ASSIGN(embedding_border_, backend(stage.part).make_border(embed->out.width, options_.max_rows));
      }
    }
    return {};
  }

  /// Tokens by place are known to the part that sampled them: another one gets their values.
  std::span<const std::int32_t> tokens_of(const StepArgs& args) {
    resolved_ = {};
    if (embeds_ == stages_.home || std::ranges::none_of(args.tokens, [](std::int32_t t) { return t < 0; }))
      return args.tokens;
    collect();
    std::ranges::transform(args.tokens, tokens_.begin(),
                           [&](std::int32_t token) { return resolved(args, token); });
    return resolved_ = std::span<const std::int32_t>(tokens_).first(args.tokens.size());
  }

  /// Embedded rows are in the memory of the part that answers: another one gets a copy.
  RowPlaces embeddings_of(const StepArgs& args) {
    const RowPlaces& given = args.embeddings;
    if (given.store == nullptr || !embedding_border_) return given;
    const auto width = static_cast<std::size_t>(given.store->width());
    const auto count = static_cast<int>(given.places.size());
    settle(embeds_, *embedding_border_, embedding_read_in_);
    const std::span<float> to = embedding_border_->fill(count);
    each_run(given.places, [&](int row, std::int32_t from, int rows) {
      given.store->read(
          from, to.subspan(static_cast<std::size_t>(row) * width, static_cast<std::size_t>(rows) * width));
    });
    embedding_border_->send(count);
    for (std::size_t i = 0; i < given.places.size(); ++i)
      embedded_[i] = given.places[i] < 0 ? -1 : static_cast<std::int32_t>(i);
    embedding_read_in_ = submitted_[static_cast<std::size_t>(embeds_)] + 1;
    return {&embedding_border_->rows(), std::span<const std::int32_t>(embedded_).first(given.places.size())};
  }

  /// No step of the part reads the border's rows any more.
  void settle(int part, RowBorder& border, std::uint64_t read_in) {
    const auto p = static_cast<std::size_t>(part);
    if (read_in <= ended_[p]) return;
    guard(part, [&] { (void)border.fetch(0); });
    ended_[p] = submitted_[p];
  }

  void move(const Transfer& transfer, int rows) {
    const int from_part = stages_.crossings[static_cast<std::size_t>(transfer.crossing)].part;
    const Place& from = place_of(transfer.crossing, from_part);
    const Place& to = place_of(transfer.crossing, transfer.part);
    std::span<const float> values;
    guard(from_part, [&] { values = from.border->fetch(rows); });
    ended_[static_cast<std::size_t>(from_part)] = submitted_[static_cast<std::size_t>(from_part)];
    settle(transfer.part, *to.border, *to.read_in);
    guard(transfer.part, [&] {
      std::ranges::copy(values, to.border->fill(rows).begin());
      to.border->send(rows);
    });
  }

  void submit_stage(std::size_t number, const StepArgs& args, int rows, State& state) {
    const Stage& stage = stages_.list[number];
    const auto part = static_cast<std::size_t>(stage.part);
    const std::uint64_t step = ++submitted_[part];
    StepArgs own;
    own.segments = args.segments, own.coordinates = args.coordinates, own.round_tokens = args.round_tokens;
    own.logits = stage.answers && args.logits;
    if (stage.embeds || stage.answers) own.tokens = args.tokens;
    if (stage.embeds) own.embeddings = args.embeddings;
    if (stage.answers)
      own.logit_rows = args.logit_rows, own.samples = args.samples, own.samples_follow = args.samples_follow;
    for (std::size_t i = 0; i < stage.inputs.size(); ++i) {
      const Place& from = place_of(stage.inputs[i], stage.part);
      own.more_hidden[i] = from.rows, *from.read_in = step;
    }
    const std::span<const std::int32_t> identity = std::span(identity_).first(static_cast<std::size_t>(rows));
    if (!stage.inputs.empty()) own.hidden = {own.more_hidden[0], identity};
    if (!stage.outputs.empty()) own.capture.places = identity;
    for (std::size_t i = 0; i < stage.outputs.size(); ++i)
      own.capture.stores[i] = place_of(stage.outputs[i], stage.part).rows;
    for (const StageCapture& capture : stage.captures) {
      if (capture.crossing >= 0) continue;
      own.capture.places = args.capture.places;
      own.capture.stores[static_cast<std::size_t>(capture.own)] =
          args.capture.stores[static_cast<std::size_t>(capture.number)];
    }
    State& given = states_[part]  ? *states_[part]
                   : split_state_ ? static_cast<SplitState&>(state).part(stage.part)
                                  : state;
    guard(stage.part, [&] { executables_[number]->submit(own, given); });
  }

  /// Captured rows go to their places at the part that answers.
  void keep(const StageCapture& capture, const CapturePlaces& to) {
    RowStore* const store = to.stores[static_cast<std::size_t>(capture.number)];
    if (store == nullptr) return;
    const Crossing& crossing = stages_.crossings[static_cast<std::size_t>(capture.crossing)];
    const Place& from = place_of(capture.crossing, crossing.part);
    if (crossing.part == stages_.home) {
      return each_run(to.places, [&](int row, std::int32_t place, int rows) {
        store->copy(*from.rows, row, place, rows);
      });
    }
    std::span<const float> values;
    guard(crossing.part, [&] { values = from.border->fetch(static_cast<int>(to.places.size())); });
    ended_[static_cast<std::size_t>(crossing.part)] = submitted_[static_cast<std::size_t>(crossing.part)];
    const auto width = static_cast<std::size_t>(crossing.row.width);
    each_run(to.places, [&](int row, std::int32_t place, int rows) {
      store->write(place, values.subspan(static_cast<std::size_t>(row) * width,
                                         static_cast<std::size_t>(rows) * width));
    });
  }

  Stages stages_;
  std::vector<PartOf> parts_;
  CompileOptions options_;
  bool split_state_;
  std::vector<std::unique_ptr<State>> states_;  // by part: of those that keep nothing, else null
  PlacePool pool_;
  std::vector<Place> places_;  // [crossings, parts]
  std::vector<std::vector<Transfer>> transfers_;
  std::vector<std::unique_ptr<Executable>> executables_;  // by stage; after everything that their steps use
  std::vector<std::uint64_t> submitted_, ended_;          // by part: stages
  std::vector<std::int32_t> identity_, tokens_, embedded_;
  std::span<const std::int32_t> resolved_;  // tokens of the last step, where they differ from the given ones
  std::unique_ptr<RowBorder> embedding_border_;  // null: the part that embeds has the rows
  std::uint64_t embedding_read_in_ = 0;
  std::size_t answers_ = 0;  // the stage
  int embeds_ = -1;          // the part
};

}  // namespace

Result<std::unique_ptr<Executable>> make_executable(Stages stages, std::vector<PartOf> parts,
                                                    const CompileOptions& options, bool split_state) {
  auto executable =
      std::make_unique<SplitExecutable>(std::move(stages), std::move(parts), options, split_state);
  FT_TRY(executable->build());
  return std::unique_ptr<Executable>(std::move(executable));
}

}  // namespace ft::split
