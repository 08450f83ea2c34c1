#include "verify/matrix.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <map>

#include "backends/registry.h"

namespace ft {
namespace {

std::vector<DrafterKind> more_drafters(const Model& model);

constexpr int kBatch = 3;
constexpr std::uint64_t kSeed = 20240229;
constexpr SamplingKind kKinds[] = {
    SamplingKind::kGreedy, SamplingKind::kSampled, SamplingKind::kPenalties, SamplingKind::kMaskAndBias,
    SamplingKind::kStop,   SamplingKind::kGrammar, SamplingKind::kBudget};

std::string_view way_name(Way way) {
  switch (way) {
    case Way::kCold:
      return "cold";
    case Way::kForked:
      return "forked";
    case Way::kWarm:
      return "warm";
  }
  return "cold";
}

/// The parameters of each kind of sampling, the same for a baseline and for every cell.
SlotOptions slot_options(SamplingKind kind, int tokens, int vocabulary) {
  SlotOptions options;
  options.max_tokens = tokens;
  SamplingParams& sampler = options.sampler;
  sampler.seed = kSeed;
  switch (kind) {
    case SamplingKind::kGreedy:
      break;
    case SamplingKind::kSampled:
      sampler.temperature = 0.8F, sampler.top_k = 40, sampler.top_p = 0.95F, sampler.min_p = 0.02F;
      break;
    case SamplingKind::kPenalties:
      sampler.temperature = 0.7F, sampler.repetition = 1.2F, sampler.presence = 0.5F,
      sampler.frequency = 0.3F;
      break;
    case SamplingKind::kMaskAndBias:
      sampler.temperature = 1.0F, sampler.top_p = 0.9F;
      options.mask.assign((static_cast<std::size_t>(vocabulary) + 31) / 32, 0);
      for (int token = 0; token < vocabulary; ++token) {
        // Every fifth token is forbidden, so that a drafter that ignores the mask is often wrong.
        if (token % 5 != 3) options.mask[static_cast<std::size_t>(token) / 32] |= 1U << (token % 32);
      }
      for (int token = 7; token < vocabulary && options.bias.size() < 64; token += 101) {
        options.bias.push_back({token, token % 2 == 0 ? 2.0F : -3.0F});
      }
      break;
    case SamplingKind::kStop:
      sampler.temperature = 0.6F;
      break;
    case SamplingKind::kGrammar:
    case SamplingKind::kBudget:
      sampler.temperature = 0.9F;
      break;
  }
  return options;
}

/// One sequence of a cell: its start and its result.
struct Sequence {
  std::span<const std::int32_t> prompt;
  std::span<const PromptImage> images;
  int tokens = 0;       // max
  int start_round = 0;  // the round in which it joins the others
  std::vector<std::int32_t> answer;
  std::int64_t drafted = 0, accepted = 0;
};

/// The slots of a cell, closed on every exit.
class OpenSlots {
 public:
  OpenSlots(Decoder& decoder, std::size_t count) : decoder_(decoder), slots_(count) {}
  ~OpenSlots() {
    for (std::size_t i = 0; i < slots_.size(); ++i) close(i);
  }
  OpenSlots(const OpenSlots&) = delete;
  OpenSlots& operator=(const OpenSlots&) = delete;

  Slot* at(std::size_t i) { return slots_[i].get(); }
  void set(std::size_t i, std::unique_ptr<Slot> slot) { slots_[i] = std::move(slot); }
  void close(std::size_t i) {
    if (slots_[i]) decoder_.close(*slots_[i]);
    slots_[i].reset();
  }

 private:
  Decoder& decoder_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

Status prefill_all(Decoder& decoder, Slot& slot, int chunk) {
  while (!slot.prefilled()) FT_TRY(decoder.prefill(slot, chunk));
  return {};
}

Result<std::unique_ptr<Slot>> open_slot(Decoder& decoder, const Cell& cell, const Sequence& sequence,
                                        const MatrixOptions& matrix) {
  const int vocabulary = decoder.model().facts.vocabulary;
  SlotOptions options = slot_options(cell.sampling, sequence.tokens, vocabulary);
  options.depth = cell.depth;
  std::unique_ptr<Constraint> constraint;
  if (matrix.constrain) {
    FT_ASSIGN(constraint, matrix.constrain(cell.sampling));
  }
  std::unique_ptr<Slot> slot;
  if (cell.way != Way::kCold && sequence.prompt.size() > 1) {
    OpenSlots open(decoder, 1);
    FT_ASSIGN(std::unique_ptr<Slot> original,
              decoder.open(sequence.prompt, options, cell.drafter, {}, sequence.images));
    open.set(0, std::move(original));
    Slot* first = open.at(0);
    FT_TRY(prefill_all(decoder, *first, cell.chunk));
    if (cell.way == Way::kForked) {
      FT_ASSIGN(slot, decoder.fork(*first, options, cell.drafter));
    } else {
      FT_ASSIGN(const Snapshot snapshot, decoder.snapshot(*first));
      const PrefixHit hit{&snapshot, snapshot.low()};
      FT_ASSIGN(slot, decoder.open(sequence.prompt, options, cell.drafter, hit, sequence.images));
    }
    // The original continues for a round, which exposes memory shared by mistake.
    decoder.round({&first, 1});
  } else {
    FT_ASSIGN(slot, decoder.open(sequence.prompt, options, cell.drafter, {}, sequence.images));
  }
  slot->constraint = std::move(constraint);
  if (cell.sampling == SamplingKind::kStop) {
    // As a stop string does, this ends the answer at a token unknown to the round.
    slot->on_token = [emitted = 0](std::int32_t token, std::span<const float>, std::string_view) mutable {
      return ++emitted > 5 && token % 7 == 2;
    };
  }
  return slot;
}

/// Runs all sequences of a cell together.
Status decode(Decoder& decoder, const Cell& cell, std::vector<Sequence>& sequences,
              const MatrixOptions& matrix) {
  OpenSlots slots(decoder, sequences.size());
  std::vector<Slot*> ready;
  std::size_t ended = 0;
  for (int round = 0; ended < sequences.size(); ++round) {
    ready.clear();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (sequences[i].start_round == round) {
        FT_ASSIGN(std::unique_ptr<Slot> opened, open_slot(decoder, cell, sequences[i], matrix));
        slots.set(i, std::move(opened));
      }
      Slot* slot = slots.at(i);
      if (slot == nullptr) continue;
      if (!slot->prefilled()) FT_TRY(decoder.prefill(*slot, cell.chunk));
      if (slot->prefilled()) ready.push_back(slot);
    }
    if (!ready.empty()) decoder.round(ready);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      Slot* slot = slots.at(i);
      if (slot == nullptr || slot->finish == Finish::kNone) continue;
      if (slot->finish == Finish::kError) return slot->error;
      sequences[i].answer.assign(slot->tokens.begin() + slot->prompt_tokens, slot->tokens.end());
      sequences[i].drafted = slot->report.drafted, sequences[i].accepted = slot->report.accepted;
      slots.close(i);
      ++ended;
    }
  }
  return {};
}

/// The sequences of a cell from prompt `first` on; a batch has prompts and answers of different lengths.
std::vector<Sequence> sequences_of(const Cell& cell, const std::vector<MatrixPrompt>& prompts,
                                   std::size_t first, int tokens) {
  std::vector<Sequence> sequences;
  for (int i = 0; i < cell.batch; ++i) {
    const MatrixPrompt& prompt = prompts[(first + static_cast<std::size_t>(i)) % prompts.size()];
    sequences.push_back({prompt.ids, prompt.images, std::max(1, tokens - 5 * i), 2 * i, {}, 0, 0});
  }
  return sequences;
}

class Matrix {
 public:
  Matrix(const Model& model, std::vector<MatrixPrompt> prompts, const MatrixOptions& options)
      : model_(model), prompts_(std::move(prompts)), options_(options) {}

  Result<MatrixReport> run() {
    std::vector<Cell> cells;
    for (const int threads : options_.threads) {
      const bool brief = options_.size == MatrixSize::kQuick && threads != options_.threads.front();
      const MatrixSize size = brief ? MatrixSize::kBrief : options_.size;
      const std::vector<Cell> some = matrix_cells(size, threads, model_.mtp.has_value(),
                                                  options_.constrain != nullptr, more_drafters(model_));
      cells.insert(cells.end(), some.begin(), some.end());
    }
    cells = part_of(cells);
    int threads = -1;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (options_.progress && !options_.progress(i, cells.size())) {
        report_.complete = false;
        break;
      }
      if (cells[i].threads != threads) FT_TRY(build(threads = cells[i].threads));
      FT_TRY(compare(cells[i]));
    }
    return std::move(report_);
  }

 private:
  std::vector<Cell> part_of(const std::vector<Cell>& cells) const {
    std::vector<Cell> own;
    for (auto i = static_cast<std::size_t>(options_.part) - 1; i < cells.size();
         i += static_cast<std::size_t>(options_.parts))
      own.push_back(cells[i]);
    return own;
  }

  Status build(int threads) {
    decoder_.reset();
    backend_.reset();
    BackendOptions backend = options_.backend;
    backend.threads = threads, backend.target = &model_.target;
    FT_ASSIGN(backend_, make_backend(backend));
    if (options_.around) backend_ = options_.around(std::move(backend_));
    DecoderOptions options;
    options.slots = 2 * kBatch;  // a forked cell has the original and the copy
    options.snapshots = kBatch;
    options.cache_bytes = std::int64_t{1} << 40;  // unlimited for these sequences
    options.recall_bytes = std::int64_t{1} << 22;
    std::size_t longest = 0;
    for (const MatrixPrompt& prompt : prompts_) {
      longest = std::max(longest, prompt.ids.size());
      for (const PromptImage& image : prompt.images)
        options.max_pixels = std::max(options.max_pixels, image.picture->pixels.size.pixels());
    }
    options.context = static_cast<std::int64_t>(longest) + options_.tokens + 1;
    FT_ASSIGN(decoder_, Decoder::make(*backend_, model_, options));
    return drop_unreadable();
  }

  /// Leaves out prompts with pictures if the backend cannot read them, and reports it.
  Status drop_unreadable() {
    if (!decoder_->images_problem().empty()) {
      const auto left_out =
          std::erase_if(prompts_, [](const MatrixPrompt& prompt) { return !prompt.images.empty(); });
      if (left_out > 0) report_.images_problem = decoder_->images_problem();
    }
    if (prompts_.empty()) return Error{Code::kUnsupported, decoder_->images_problem()};
    report_.prompts = static_cast<int>(prompts_.size());
    report_.pictured = static_cast<int>(
        std::ranges::count_if(prompts_, [](const MatrixPrompt& one) { return !one.images.empty(); }));
    return {};
  }

  /// Plain decoding, alone, in one chunk, with the first thread count.
  Result<std::vector<std::int32_t>> baseline(SamplingKind kind, std::size_t prompt) {
    const auto key = std::pair(kind, prompt);
    if (const auto found = baselines_.find(key); found != baselines_.end()) return found->second;
    Cell plain;
    plain.sampling = kind, plain.depth = 0;
    std::vector<Sequence> alone = sequences_of(plain, prompts_, prompt, options_.tokens);
    FT_TRY(decode(*decoder_, plain, alone, options_));
    return baselines_[key] = alone[0].answer;
  }

  Status compare(const Cell& cell) {
    CellResult result;
    result.cell = cell;
    result.prompts = static_cast<int>(prompts_.size()), result.tokens = options_.tokens;
    for (std::size_t p = 0; p < prompts_.size(); ++p) {
      std::vector<Sequence> sequences = sequences_of(cell, prompts_, p, options_.tokens);
      std::vector<std::size_t> limits;
      for (const Sequence& sequence : sequences) limits.push_back(static_cast<std::size_t>(sequence.tokens));
      FT_TRY(decode(*decoder_, cell, sequences, options_));
      for (std::size_t i = 0; i < sequences.size(); ++i) {
        const std::size_t prompt = (p + i) % prompts_.size();
        FT_ASSIGN(std::vector<std::int32_t> wanted, baseline(cell.sampling, prompt));
        wanted.resize(std::min(wanted.size(), limits[i]));
        compare_tokens(wanted, sequences[i], prompts_[prompt].name, result);
      }
    }
    report_.compared += result.compared;
    report_.differing += result.differing;
    report_.cells.push_back(std::move(result));
    return {};
  }

  static void compare_tokens(const std::vector<std::int32_t>& wanted, const Sequence& found,
                             const std::string& prompt, CellResult& result) {
    const std::size_t most = std::max(wanted.size(), found.answer.size());
    for (std::size_t i = 0; i < most; ++i) {
      const std::int32_t want = i < wanted.size() ? wanted[i] : -1;
      const std::int32_t have = i < found.answer.size() ? found.answer[i] : -1;
      ++result.compared;
      if (want == have) continue;
      ++result.differing;
      if (result.first_difference.empty()) {
        result.first_difference =
            fmt::format("prompt {}, token {}: {} instead of {}", prompt, i + 1, have, want);
      }
    }
    result.drafted += found.drafted;
    result.accepted += found.accepted;
  }

  const Model& model_;
  std::vector<MatrixPrompt> prompts_;
  const MatrixOptions& options_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Decoder> decoder_;
  std::map<std::pair<SamplingKind, std::size_t>, std::vector<std::int32_t>> baselines_;
  MatrixReport report_;
};

constexpr DrafterKind kRoundRobin{DrafterSet::kRoundRobin};

/// The model's drafters other than the MTP head and lookup, and all of them alternating.
std::vector<DrafterKind> more_drafters(const Model& model) {
  std::vector<DrafterKind> kinds = {DrafterKind::kRecall};
  for (const DraftNetwork& network : model.drafters) {
    const Result<DrafterKind> kind = DrafterKind::parse(network.name);
    if (kind.ok()) kinds.push_back(*kind);
  }
  kinds.push_back(kRoundRobin);
  return kinds;
}

void more_cells(SamplingKind kind, int threads, std::span<const DrafterKind> more, std::vector<Cell>& cells) {
  for (const DrafterKind drafter : more) {
    for (const int depth : {1, kMaxDraftTokens})
      cells.push_back({kind, drafter, depth, 1, 256, Way::kCold, threads});
    if (drafter != kRoundRobin) cells.push_back({kind, drafter, -1, 1, 256, Way::kCold, threads});
    cells.push_back({kind, drafter, 5, kBatch, 7, Way::kCold, threads});
    cells.push_back({kind, drafter, 3, 1, 256, Way::kForked, threads});
    cells.push_back({kind, drafter, 3, kBatch, 7, Way::kWarm, threads});
  }
}

void full_cells(SamplingKind kind, int threads, bool has_head, std::span<const DrafterKind> more,
                std::vector<Cell>& cells) {
  std::vector<DrafterKind> kinds = {DrafterKind::kNone, DrafterKind::kMtp, DrafterKind::kLookup,
                                    DrafterKind::kAuto};
  kinds.insert(kinds.end(), more.begin(), more.end());
  for (const DrafterKind drafter : kinds) {
    if (drafter == DrafterKind::kMtp && !has_head) continue;
    for (const int depth : {0, 1, 3, 8, -1}) {
      if (drafter == DrafterKind::kNone && depth != 0) continue;
      for (const int batch : {1, kBatch}) {
        for (const int chunk : {1, 7, 256}) {
          for (const Way way : {Way::kCold, Way::kForked, Way::kWarm})
            cells.push_back({kind, drafter, depth, batch, chunk, way, threads});
        }
      }
    }
  }
}

/// Moves each axis away from the middle once, for each drafter.
void quick_cells(SamplingKind kind, int threads, bool has_head, std::vector<Cell>& cells) {
  const DrafterKind best = has_head ? DrafterKind::kMtp : DrafterKind::kLookup;
  if (has_head) {
    for (const int depth : {1, 3, 8, -1})
      cells.push_back({kind, DrafterKind::kMtp, depth, 1, 256, Way::kCold, threads});
  }
  for (const int depth : {3, -1})
    cells.push_back({kind, DrafterKind::kLookup, depth, 1, 256, Way::kCold, threads});
  cells.push_back({kind, DrafterKind::kAuto, -1, 1, 256, Way::kCold, threads});
  cells.push_back({kind, DrafterKind::kNone, 0, kBatch, 7, Way::kCold, threads});
  cells.push_back({kind, DrafterKind::kNone, 0, 1, 1, Way::kForked, threads});
  cells.push_back({kind, best, 3, kBatch, 256, Way::kCold, threads});
  cells.push_back({kind, best, 8, 1, 7, Way::kCold, threads});
  cells.push_back({kind, best, 3, 1, 256, Way::kForked, threads});
  cells.push_back({kind, DrafterKind::kAuto, -1, kBatch, 7, Way::kForked, threads});
  cells.push_back({kind, best, 3, kBatch, 7, Way::kWarm, threads});
  cells.push_back({kind, DrafterKind::kAuto, -1, 1, 256, Way::kWarm, threads});
}

/// A second thread count may only change the division of rows of a step and of a batch.
void brief_cells(SamplingKind kind, int threads, bool has_head, std::vector<Cell>& cells) {
  const DrafterKind best = has_head ? DrafterKind::kMtp : DrafterKind::kLookup;
  cells.push_back({kind, DrafterKind::kNone, 0, kBatch, 7, Way::kCold, threads});
  cells.push_back({kind, best, 3, 1, 256, Way::kCold, threads});
  cells.push_back({kind, DrafterKind::kAuto, -1, kBatch, 256, Way::kForked, threads});
}

void long_cells(SamplingKind kind, int threads, bool has_head, std::vector<Cell>& cells) {
  if (kind != SamplingKind::kGreedy && kind != SamplingKind::kSampled) return;
  if (has_head) {
    for (const int depth : {3, 8})
      cells.push_back({kind, DrafterKind::kMtp, depth, 1, 256, Way::kCold, threads});
  }
  cells.push_back({kind, DrafterKind::kLookup, -1, 1, 256, Way::kCold, threads});
  cells.push_back({kind, DrafterKind::kAuto, -1, kBatch, 7, Way::kCold, threads});
}

}  // namespace

std::string_view sampling_kind_name(SamplingKind kind) {
  switch (kind) {
    case SamplingKind::kGreedy:
      return "greedy";
    case SamplingKind::kSampled:
      return "sampled";
    case SamplingKind::kPenalties:
      return "penalties";
    case SamplingKind::kMaskAndBias:
      return "mask+bias";
    case SamplingKind::kStop:
      return "stop";
    case SamplingKind::kGrammar:
      return "grammar";
    case SamplingKind::kBudget:
      return "thinking budget, grammar";
  }
  return "greedy";
}

std::string Cell::text() const {
  return fmt::format("{}, {} depth {}, batch {}, chunk {}, {}, {} thread{}", sampling_kind_name(sampling),
                     drafter.name(), depth < 0 ? "auto" : std::to_string(depth), batch, chunk, way_name(way),
                     threads, threads == 1 ? "" : "s");
}

std::vector<Cell> matrix_cells(MatrixSize size, int threads, bool has_head, bool constrained,
                               std::span<const DrafterKind> more) {
  std::vector<Cell> cells;
  for (const SamplingKind kind : kKinds) {
    if (!constrained && (kind == SamplingKind::kGrammar || kind == SamplingKind::kBudget)) continue;
    if (size == MatrixSize::kQuick) more_cells(kind, threads, more, cells);
    switch (size) {
      case MatrixSize::kFull:
        full_cells(kind, threads, has_head, more, cells);
        break;
      case MatrixSize::kQuick:
        quick_cells(kind, threads, has_head, cells);
        break;
      case MatrixSize::kBrief:
        brief_cells(kind, threads, has_head, cells);
        break;
      case MatrixSize::kLong:
        long_cells(kind, threads, has_head, cells);
        break;
    }
  }
  return cells;
}

void MatrixReport::add(MatrixReport other) {
  cells.insert(cells.end(), std::make_move_iterator(other.cells.begin()),
               std::make_move_iterator(other.cells.end()));
  compared += other.compared, differing += other.differing;
  complete = complete && other.complete;
  prompts += other.prompts, pictured += other.pictured;
  if (images_problem.empty()) images_problem = std::move(other.images_problem);
}

Result<MatrixReport> run_matrix(const Model& model, const std::vector<MatrixPrompt>& prompts,
                                const MatrixOptions& options) {
  if (prompts.empty()) return Error{Code::kInvalid, "the matrix has no prompts; give at least one"};
  return Matrix(model, prompts, options).run();
}

}  // namespace ft
