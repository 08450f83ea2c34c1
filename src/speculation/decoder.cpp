#include "speculation/decoder.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <new>

#include "drafters/guarded.h"
#include "speculation/context_room.h"

namespace ft {

namespace {

/// Least prompt rows of a step of a model with experts: such a step reads nearly all experts, whatever its
/// rows, and 512 rows leave 16 to each of 256 experts of which a token takes 8.
constexpr int kExpertChunk = 512;

/// Tokens that the model's files say it never writes.
void suppress(std::span<const int> tokens, std::vector<LogitBias>& bias) {
  if (tokens.empty()) return;
  std::erase_if(bias,
                [&](const LogitBias& one) { return std::ranges::find(tokens, one.token) != tokens.end(); });
  for (const int token : tokens) bias.push_back({token, -std::numeric_limits<float>::infinity()});
  std::ranges::sort(bias, {}, &LogitBias::token);
}

}  // namespace

Result<std::unique_ptr<Decoder>> Decoder::make(Backend& backend, const Model& model,
                                               const DecoderOptions& options) {
  try {
    std::unique_ptr<Decoder> decoder(new Decoder(backend, model, options));
    FT_TRY(decoder->build());
    return decoder;
  } catch (
      const std::bad_alloc&) {  // what a backend does not answer for itself; the sentence needs no memory
    return Error{Code::kExhausted, "out of memory"};
  }
}

DecoderOptions Decoder::resolved(DecoderOptions options, const Backend& backend, const Model& model) {
  if (options.prefill_chunk > 0) return options;
  options.prefill_chunk = backend.limits(model.target.layout()).prefill_chunk;
  if (model.facts.experts > 0) options.prefill_chunk = std::max(options.prefill_chunk, kExpertChunk);
  return options;
}

Status Decoder::build() {
  FT_ASSERT(options_.max_depth >= 0 && options_.max_depth <= kMaxDraftTokens);
  options_ = resolved(options_, backend_, model_);
  CompileOptions compile;
  const int round_rows = options_.slots * (options_.max_depth + 1);
  compile.max_rows = std::max({options_.prefill_chunk, round_rows, options_.logit_rows});
  compile.max_logit_rows = std::max(round_rows, options_.logit_rows);
  FT_ASSIGN(target_, backend_.compile(model_.target, compile));
  const int blocks_each = blocks_of(options_.context, options_.max_depth);
  plan_room(blocks_each);
  const StateOptions state{options_.slots + room_.snapshots, options_.slots * blocks_each + room_.blocks,
                           true};
  FT_ASSIGN(state_, backend_.make_state(model_.target.layout(), state));
  pool_ = std::make_unique<TimelinePool>(*state_, state);
  FT_TRY(build_images());
  FT_TRY(build_drafters(std::max(options_.prefill_chunk, round_rows), blocks_each));
  if (model_.checkpoint) model_.checkpoint->drop_pages();  // packed: what is still read comes back by itself
  round_ = std::make_unique<Round>(*target_, *state_, options_.slots, captured(), options_.max_depth,
                                   images_.get());
  slot_used_.assign(static_cast<std::size_t>(options_.slots), 0);
  return {};
}

/// A backend that lacks an instruction of the tower runs the model without images.
Status Decoder::build_images() {
  images_problem_ = model_.vision_problem;
  if (!model_.vision) {
    if (images_problem_.empty()) images_problem_ = "this model reads text only";
    return {};
  }
  auto encoder = ImageEncoder::make(backend_, *model_.vision, options_.max_pixels);
  if (!encoder.ok() && encoder.error().code == Code::kUnsupported) {
    images_problem_ = "images cannot be read here: " + encoder.error().message;
    return {};
  }
  if (!encoder.ok()) return encoder.error();
  encoder_ = std::move(*encoder);
  FT_ASSIGN(images_, ImageRows::make(backend_, model_.facts.width, options_.slots, options_.context));
  return {};
}

/// Gives the slot its images, which must be where its tokens say.
Status Decoder::take_images(Slot& slot, std::span<const PromptImage> images) const {
  if (images.empty()) return {};
  if (!encoder_) return Error{Code::kUnsupported, images_problem_};
  std::int64_t tokens = 0;
  for (const PromptImage& image : images) {
    const images::Picture& picture = *image.picture;
    slot.positions.add({image.first, picture.token_rows(), picture.token_columns()});
    tokens += picture.tokens();
    if (picture.pixels.size.pixels() > encoder_->max_pixels()) {
      return Error{Code::kInvalid,
                   fmt::format("an image has {} pixels, but at most {} are accepted; use --max-pixels",
                               picture.pixels.size.pixels(), encoder_->max_pixels())};
    }
  }
  if (tokens > images_->area()) {
    return Error{
        Code::kExhausted,
        fmt::format("the images have {} tokens, but a prompt may have {}; send fewer or smaller ones", tokens,
                    images_->area())};
  }
  slot.images.assign(images.begin(), images.end());
  for (PromptImage& image : slot.images) image.read = false;  // not into this slot's area
  return {};
}

Status Decoder::prefill(Slot& slot, int rows) {
  const std::int64_t done = slot.timeline->length();
  for (PromptImage& image : slot.images) {
    if (image.read || image.end() <= done || image.first >= done + rows) continue;
    FT_TRY(guarded([&]() -> Status {
      encoder_->encode(*image.picture, images_->store(),
                       images_->place(slot.id, slot.positions, image.first));
      return {};
    }));
    image.read = true;
    ++images_read_;
  }
  return round_->prefill(slot, rows);
}

Status Decoder::build_drafters(int step_rows, int blocks_each) {
  const std::vector<const DrafterSpec*> specs = drafters_of(model_);
  FT_TRY(capture_for(specs, step_rows));
  for (const DrafterSpec* spec : specs) {
    DrafterContext context{backend_, model_};
    context.captured = captured(spec->request(model_).name), context.images = images_.get();
    context.slots = options_.slots, context.max_depth = options_.max_depth,
    context.context = options_.context;
    context.blocks = options_.slots * blocks_each + room_.draft_blocks + 1;  // one while forking
    context.memories = room_.snapshots + 1;
    context.recall_bytes = options_.recall_bytes;
    FT_ASSIGN(std::unique_ptr<Drafter> drafter, spec->open(context));
    if (!drafter) continue;  // these options leave it out
    drafter->set_number(static_cast<int>(drafters_.size()));
    drafters_.push_back(std::move(drafter));
  }
  if (drafters_.size() > 1) {
    std::vector<Drafter*> members;
    for (const auto& drafter : drafters_) members.push_back(drafter.get());
    drafter_set_ = std::make_unique<DrafterSet>(std::move(members), options_.slots);
    drafter_set_->set_number(static_cast<int>(drafters_.size()));
    round_robin_ = std::make_unique<DrafterSet>(drafter_set_->all(), options_.slots, true);
    round_robin_->set_number(drafter_set_->number());  // one remembers what the other does
  }
  for (const auto& drafter : drafters_) {
    for (int context = 0; context < Drafter::kContextClasses; ++context)
      prior_.expect(drafter->number(), context, drafter->first_guess(context));
  }
  return {};
}

/// Makes the rows that these drafters read; all of them keep the longest history, so that places are shared.
Status Decoder::capture_for(std::span<const DrafterSpec* const> specs, int step_rows) {
  int history = 0;
  for (const DrafterSpec* spec : specs) history = std::max(history, spec->request(model_).history);
  for (const DrafterSpec* spec : specs) {
    CaptureRequest request = spec->request(model_);
    if (request.width == 0) continue;
    const Capture* capture = find_capture(model_.target, request.name);
    if (capture == nullptr || capture->in.width != request.width) {
      return Error{Code::kUnsupported,
                   fmt::format("the model's program captures no rows '{}' of width {}, which the drafter {} "
                               "needs; choose --drafter none or lookup",
                               request.name, request.width, spec->name)};
    }
    std::unique_ptr<CapturedRows>& rows = captured_[static_cast<std::size_t>(capture->number)];
    if (rows) continue;
    request.history = history;
    FT_ASSIGN(rows, CapturedRows::make(backend_, request, options_.slots, step_rows));
  }
  return {};
}

CapturedSet Decoder::captured() const {
  CapturedSet set{};
  for (std::size_t i = 0; i < set.size(); ++i) set[i] = captured_[i].get();
  return set;
}

/// Null: no drafter reads rows of that name.
CapturedRows* Decoder::captured(const std::string& name) const {
  for (const auto& rows : captured_) {
    if (rows && rows->name() == name) return rows.get();
  }
  return nullptr;
}

int Decoder::blocks_of(std::int64_t context, int max_depth) {
  return static_cast<int>((context + max_depth + kBlockRows) / kBlockRows) + 1;
}

Drafter* Decoder::drafter(DrafterKind kind) {
  if (kind == DrafterKind::kNone) return nullptr;
  if (kind == DrafterKind::kAuto) return drafter_set_ ? drafter_set_.get() : drafters_.back().get();
  if (kind == SyntheticDrafter::kKind) return synthetic_.get();
  if (kind.name() == DrafterSet::kRoundRobin) return round_robin_.get();
  for (const auto& drafter : drafters_) {
    if (drafter->name() == kind.name()) return drafter.get();
  }
  return nullptr;
}

std::string Decoder::drafter_problem(DrafterKind kind) const {
  if (kind == DrafterKind::kRecall && options_.recall_bytes <= 0)
    return "earlier requests are not remembered; start with --lookup-memory-mb";
  return ft::drafter_problem(kind, model_);
}

void Decoder::release_unused() const {
  pool_->release_unused();
  for (const auto& drafter : drafters_) {
    if (const TimelinePool* pool = drafter->pool()) pool->release_unused();
  }
}

Drafter* Decoder::network_drafter() {
  for (const auto& drafter : drafters_) {
    if (drafter->draft_cost(1) > 0) return drafter.get();
  }
  return nullptr;
}

const TimelinePool* Decoder::draft_pool() const {
  for (const auto& drafter : drafters_) {
    if (const TimelinePool* pool = drafter->pool()) return pool;
  }
  return nullptr;
}

SyntheticDrafter& Decoder::force(std::vector<double> schedule, std::uint64_t seed) {
  synthetic_ = std::make_unique<SyntheticDrafter>(network_drafter(), std::move(schedule), seed);
  synthetic_->set_number(static_cast<int>(drafters_.size()) + 1);
  return *synthetic_;
}

std::int64_t Decoder::packed_bytes() const {
  std::int64_t bytes = target_->packed_bytes() + (encoder_ ? encoder_->packed_bytes() : 0);
  for (const auto& drafter : drafters_) bytes += drafter->packed_bytes();
  return bytes;
}

Result<std::unique_ptr<Slot>> Decoder::open(std::span<const std::int32_t> prompt, SlotOptions options,
                                            DrafterKind kind, const PrefixHit& hit,
                                            std::span<const PromptImage> images) {
  if (prompt.empty()) return Error{Code::kInvalid, "the prompt is empty; give at least one token"};
  options.context = options.context > 0 ? std::min(options.context, options_.context) : options_.context;
  FT_TRY(check_room(static_cast<std::int64_t>(prompt.size()), options.context));
  for (const std::int32_t token : prompt) {
    if (token >= 0 && token < target_->vocabulary()) continue;
    return Error{Code::kInvalid,
                 fmt::format("token id {} is outside the vocabulary of {}", token, target_->vocabulary())};
  }
  const auto free = std::find(slot_used_.begin(), slot_used_.end(), 0);
  if (free == slot_used_.end()) return Error{Code::kExhausted, "all slots are in use; wait for one to end"};
  auto slot = std::make_unique<Slot>();
  slot->id = static_cast<int>(free - slot_used_.begin());
  const Snapshot* past = hit.snapshot;
  FT_ASSERT(past == nullptr || (hit.length >= past->low() && hit.length <= past->high() &&
                                hit.length < static_cast<std::int64_t>(prompt.size())));
  FT_ASSIGN(slot->timeline, past != nullptr ? past->timeline.fork(hit.length) : Timeline::open(*pool_));
  slot->timeline->reserve(options.context + options_.max_depth + 1);
  FT_TRY(take_images(*slot, images));
  slot->drafter = drafter(kind);
  if (slot->drafter != nullptr) FT_TRY(open_drafter(*slot, hit));
  slot->options = std::move(options);
  suppress(model_.facts.suppressed_ids, slot->options.bias);
  slot->policy = DepthPolicy(slot->options.depth, prior_);
  slot->tokens.reserve(static_cast<std::size_t>(slot->options.context + options_.max_depth) + 1);
  slot->tokens.assign(prompt.begin(), prompt.end());
  slot->prompt_tokens = static_cast<int>(prompt.size());
  slot->history.reserve(std::min(slot->tokens.capacity(), static_cast<std::size_t>(target_->vocabulary())));
  slot->history.add_prompt(prompt);
  *free = 1;
  return slot;
}

/// With what the snapshot's drafter remembers, if this drafter takes it.
Status Decoder::open_drafter(Slot& slot, const PrefixHit& hit) {
  const DraftMemory* memory = hit.snapshot != nullptr ? hit.snapshot->draft.get() : nullptr;
  if (memory == nullptr || !slot.drafter->restores(*memory)) {
    FT_TRY(slot.drafter->open(slot.id, slot.timeline->length()));
  } else {
    FT_TRY(slot.drafter->restore(slot.id, *memory, hit.length));
  }
  slot.drafter->set_positions(slot.id, slot.positions);
  return {};
}

void Decoder::observe(const RoundShape& shape, double ms) {
  // The backlog belongs to what drafting costs a batch, and not to what a round of this shape costs.
  if (shape.backlog_rows == 0)
    costs_.observe(shape.rows, shape.draft_steps, ms, shape.slots, shape.read, shape.drafter);
}

void Decoder::close(Slot& slot) {
  slot.policy.teach(prior_, static_cast<int>(std::ranges::count(slot_used_, 1)));
  if (slot.drafter != nullptr) slot.drafter->learn(slot.tokens, slot.options.owner);
  if (slot.drafter != nullptr) slot.drafter->close(slot.id);
  slot.timeline.reset();
  slot_used_[static_cast<std::size_t>(slot.id)] = 0;
}

Result<std::unique_ptr<Slot>> Decoder::fork(const Slot& slot, SlotOptions options, DrafterKind kind) {
  const auto prompt =
      std::span<const std::int32_t>(slot.tokens).first(static_cast<std::size_t>(slot.prompt_tokens));
  FT_ASSIGN(std::unique_ptr<Slot> copy, open(prompt, std::move(options), kind, {}, slot.images));
  if (Status status = continue_from(slot, *copy); !status.ok()) {
    close(*copy);
    return status.error();
  }
  return copy;
}

Status Decoder::continue_from(const Slot& slot, Slot& copy) {
  copy.timeline.reset();  // its slot of the pool is the one that the fork needs
  FT_ASSIGN(copy.timeline, slot.timeline->fork());
  copy.timeline->reserve(copy.options.context + static_cast<std::int64_t>(kMaxDraftTokens) + 1);
  if (copy.drafter == nullptr) return {};
  const std::int64_t length = copy.timeline->length();
  std::unique_ptr<DraftMemory> memory;
  if (slot.drafter != nullptr && slot.drafter->remembers()) {
    FT_ASSIGN(memory, slot.drafter->save(slot.id));
  }
  if (memory && copy.drafter->restores(*memory)) {
    FT_TRY(copy.drafter->restore(copy.id, *memory, length));
  } else {
    FT_TRY(copy.drafter->open(copy.id, length));
  }
  copy.drafter->set_positions(copy.id, copy.positions);
  return {};
}

Result<Snapshot> Decoder::snapshot(const Slot& slot) {
  FT_ASSERT(!slot.timeline->lost() && slot.timeline->length() > 0);
  FT_ASSIGN(Timeline timeline, slot.timeline->fork());
  Snapshot snapshot{std::move(timeline), nullptr};
  if (slot.drafter != nullptr && slot.drafter->remembers()) {
    FT_ASSIGN(snapshot.draft, slot.drafter->save(slot.id));
  }
  return snapshot;
}

Status Decoder::score(std::span<const std::int32_t> tokens, int chunk,
                      const std::function<void(std::int64_t, std::span<const float>)>& row) {
  const int most = std::max(options_.slots * (options_.max_depth + 1), options_.logit_rows);
  chunk = chunk <= 0 ? most : std::min(chunk, most);
  FT_ASSIGN(Timeline timeline, Timeline::open(*pool_));
  const auto vocabulary = static_cast<std::size_t>(target_->vocabulary());
  std::vector<std::int32_t> logit_rows;
  for (std::size_t done = 0; done < tokens.size();) {
    const int rows =
        static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(chunk), tokens.size() - done));
    FT_ASSIGN(Txn txn, timeline.begin(rows, rows));
    const Segment segment = txn.segment();
    logit_rows.clear();
    for (int i = 0; i < rows; ++i) logit_rows.push_back(i);
    StepResult result;
    try {
      result = target_->run(
          StepArgs{
              tokens.subspan(done, static_cast<std::size_t>(rows)), {}, {&segment, 1}, logit_rows, {}, {}},
          *state_);
    } catch (...) {
      txn.rollback();
      throw;
    }
    txn.commit(rows);
    for (int i = 0; i < rows; ++i) {
      row(static_cast<std::int64_t>(done) + i,
          result.logits.subspan(static_cast<std::size_t>(i) * vocabulary, vocabulary));
    }
    done += static_cast<std::size_t>(rows);
  }
  return {};
}

}  // namespace ft
