#include "speculation/assembly.h"

#include <algorithm>
#include <fmt/format.h>
#include <new>

namespace ft {

namespace {

/// Minimum prompt rows of a step of a model with experts. Such a step reads nearly all experts, whatever its
/// rows; with 512 rows, each of 256 experts gets 16 if a token uses 8.
constexpr int kExpertChunk = 512;

}  // namespace

Result<std::unique_ptr<Assembly>> Assembly::make(Backend& backend, const Model& model,
                                                 const DecoderOptions& options) {
  std::unique_ptr<Assembly> assembly(new Assembly(backend, model, options));
  FT_TRY(assembly->build());
  return assembly;
}

DecoderOptions Assembly::resolved(DecoderOptions options, const Backend& backend, const Model& model) {
  if (options.prefill_chunk > 0) return options;
  options.prefill_chunk = backend.limits(model.target.layout()).prefill_chunk;
  if (model.facts.experts > 0) options.prefill_chunk = std::max(options.prefill_chunk, kExpertChunk);
  return options;
}

Status Assembly::build() {
  FT_ASSERT(options_.max_depth >= 0 && options_.max_depth <= kMaxDraftTokens);
  options_ = resolved(options_, backend_, model_);
  CompileOptions compile;
  const int round_rows = options_.slots * (options_.max_depth + 1);
  compile.max_rows = std::max({options_.prefill_chunk, round_rows, options_.logit_rows});
  compile.max_logit_rows = std::max(round_rows, options_.logit_rows);
  FT_ASSIGN(target_, backend_.compile(model_.target, compile));
  const int blocks_each = blocks_of(options_.context, options_.max_depth);
  room_ = plan_snapshots(backend_, model_, options_, blocks_each);
  const StateOptions state{options_.slots + room_.snapshots, options_.slots * blocks_each + room_.blocks,
                           true};
  FT_ASSIGN(state_, backend_.make_state(model_.target.layout(), state));
  pool_ = std::make_unique<TimelinePool>(*state_, state);
  FT_TRY(build_images());
  FT_TRY(build_drafters(std::max(options_.prefill_chunk, round_rows), blocks_each));
  if (model_.checkpoint) model_.checkpoint->drop_pages();  // packed; pages still needed are read again
  return {};
}

/// A backend that lacks an instruction of the tower runs the model without images.
Status Assembly::build_images() {
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

Status Assembly::build_drafters(int step_rows, int blocks_each) {
  const std::vector<const DrafterSpec*> specs = drafters_of(model_);
  FT_TRY(capture_for(specs, step_rows));
  for (const DrafterSpec* spec : specs) {
    DrafterContext context{backend_, model_};
    context.captured = captured(spec->request(model_).name), context.images = images_.get();
    context.target_state = state_.get();
    context.slots = options_.slots, context.max_depth = options_.max_depth,
    context.context = options_.context;
    context.blocks = options_.slots * blocks_each + room_.draft_blocks + 1;  // one while forking
    context.memories = room_.snapshots + 1;
    context.recall_bytes = options_.recall_bytes;
    Result<std::unique_ptr<Drafter>> drafter = spec->open(context);
    if (!drafter.ok() && drafter.error().code == Code::kUnsupported)  // the backend says "the model"
      return Error{Code::kUnsupported, fmt::format("drafter {}: {}", spec->name, drafter.error().message)};
    if (!drafter.ok()) return drafter.error();
    if (!*drafter) continue;  // these options leave it out
    (*drafter)->set_number(static_cast<int>(drafters_.size()));
    drafters_.push_back(std::move(*drafter));
  }
  if (drafters_.size() > 1) {
    std::vector<Drafter*> members;
    for (const auto& drafter : drafters_) members.push_back(drafter.get());
    drafter_set_ = std::make_unique<DrafterSet>(std::move(members), options_.slots);
    drafter_set_->set_number(static_cast<int>(drafters_.size()));
    round_robin_ = std::make_unique<DrafterSet>(drafter_set_->all(), options_.slots, true);
    round_robin_->set_number(drafter_set_->number());  // the two share one memory format
  }
  return {};
}

/// Makes the rows that these drafters read; all of them keep the longest history, so that places are shared.
Status Assembly::capture_for(std::span<const DrafterSpec* const> specs, int step_rows) {
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

CapturedSet Assembly::captured() const {
  CapturedSet set{};
  for (std::size_t i = 0; i < set.size(); ++i) set[i] = captured_[i].get();
  return set;
}

/// Null: no drafter reads rows of that name.
CapturedRows* Assembly::captured(const std::string& name) const {
  for (const auto& rows : captured_) {
    if (rows && rows->name() == name) return rows.get();
  }
  return nullptr;
}

int Assembly::blocks_of(std::int64_t context, int max_depth) {
  return static_cast<int>((context + max_depth + kBlockRows) / kBlockRows) + 1;
}

Drafter* Assembly::drafter(DrafterKind kind) const {
  if (kind == DrafterKind::kNone) return nullptr;
  if (kind == DrafterKind::kAuto) return drafter_set_ ? drafter_set_.get() : drafters_.back().get();
  if (kind == SyntheticDrafter::kKind) return synthetic_.get();
  if (kind.name() == DrafterSet::kRoundRobin) return round_robin_.get();
  for (const auto& drafter : drafters_) {
    if (drafter->name() == kind.name()) return drafter.get();
  }
  return nullptr;
}

Drafter* Assembly::drafter_number(int number) const {
  if (number >= 0 && number < static_cast<int>(drafters_.size()))
    return drafters_[static_cast<std::size_t>(number)].get();
  return drafter_set_ && number == drafter_set_->number() ? drafter_set_.get() : nullptr;
}

std::string Assembly::drafter_problem(DrafterKind kind) const {
  if (kind == DrafterKind::kRecall && options_.recall_bytes <= 0)
    return "earlier requests are not remembered; start with --lookup-memory-mb";
  return ft::drafter_problem(kind, model_);
}

void Assembly::release_unused() const {
  pool_->release_unused();
  for (const auto& drafter : drafters_) {
    if (const TimelinePool* pool = drafter->pool()) pool->release_unused();
  }
}

Drafter* Assembly::network_drafter() const {
  if (!model_.drafters.empty()) {
    if (Drafter* loaded = drafter(DrafterKind(model_.drafters.front().name))) return loaded;
  }
  for (const auto& drafter : drafters_) {
    if (drafter->draft_cost(1) > 0) return drafter.get();
  }
  return nullptr;
}

const TimelinePool* Assembly::draft_pool() const {
  for (const auto& drafter : drafters_) {
    if (const TimelinePool* pool = drafter->pool()) return pool;
  }
  return nullptr;
}

SyntheticDrafter& Assembly::force(std::vector<double> schedule, std::uint64_t seed) {
  synthetic_ = std::make_unique<SyntheticDrafter>(network_drafter(), std::move(schedule), seed);
  synthetic_->set_number(static_cast<int>(drafters_.size()) + 1);
  return *synthetic_;
}

std::int64_t Assembly::packed_bytes() const {
  std::int64_t bytes = target_->packed_bytes() + (encoder_ ? encoder_->packed_bytes() : 0);
  for (const auto& drafter : drafters_) bytes += drafter->packed_bytes();
  return bytes;
}

}  // namespace ft
