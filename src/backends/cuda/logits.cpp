// The end of a program: the LM head with its extra rows, the order of columns, sampling.
#include <algorithm>

#include "backends/cuda/compiler.h"

namespace ft::cuda {

/// The rows of the head that have fixed columns; the whole head, if they are its first rows.
Result<std::shared_ptr<const PackedMatrix>> Compiler::head_of(const Logits& op) {
  const auto count = std::ssize(op.ids);
  if (op.ids.empty() || op.ids.back() == count - 1) return weights_->matrix({&op.lm_head});
  FT_ASSIGN(const std::shared_ptr<PackedMatrix> matrix, weights_->room(op.lm_head, count));
  weights_->pack_rows(op.lm_head, op.ids, 0, *matrix);
  return std::shared_ptr<const PackedMatrix>(matrix);
}

Status Compiler::make(const Logits& op) {
  Product product;
  FT_ASSIGN(product.matrix, head_of(op));
  const std::int64_t fixed = op.ids.empty() ? op.lm_head.rows : std::ssize(op.ids);
  const std::int64_t first_extra = round_up(fixed, kTileOutputs);
  FT_ASSIGN(columns_, ExtraHead::make(op, first_extra, device_, weights_));
  const std::int64_t extra = round_up(op.extra.count, kTileOutputs), columns = first_extra + extra;
  logits_memory_ = Memory(device_, static_cast<std::size_t>(columns * options_.max_logit_rows * 4));
  if (logits_memory_.empty())
    return no_memory(*device_, "logits", columns * options_.max_logit_rows * 4, "use a smaller prompt chunk");
  const View all{logits_memory_.at<float>(), static_cast<int>(columns), static_cast<int>(vocabulary_)};
  product.in = view(op.in);
  product.out = all;
  product.outputs = static_cast<int>(fixed);
  product.logit_rows = true;
  add_product(product, op.in.id);
  logits_ = all;
  if (!columns_.any()) return add_soft_cap(op), Status();
  Product rest = product;
  rest.matrix = columns_.matrix();
  rest.out.data += first_extra;
  rest.outputs = op.extra.count;
  add_product(rest, op.in.id);
  retained_.emplace_back(device_, static_cast<std::size_t>(vocabulary_ * options_.max_logit_rows * 4));
  if (retained_.back().empty()) return no_memory(*device_, "logits", vocabulary_ * 4, "use a smaller model");
  logits_ = {retained_.back().at<float>(), static_cast<int>(vocabulary_), static_cast<int>(vocabulary_)};
  const ArrangeArgs args{all, logits_, columns_.order()};
  operations_.emplace_back([args](const StepRun& step) {
    if (step.shape.logit_rows > 0)
      step.device.launch({"arrange", {parts_of(args.to.width, 256), step.shape.logit_rows}, 256}, &args);
  });
  return add_soft_cap(op), Status();
}

void Compiler::add_soft_cap(const Logits& op) {
  if (!(op.softcap > 0)) return;
  const SoftCapArgs args{logits_, op.softcap};
  operations_.emplace_back([args](const StepRun& step) {
    if (step.shape.logit_rows > 0)
      step.device.launch({"soft_cap", {parts_of(args.logits.width, 256), step.shape.logit_rows}, 256}, &args);
  });
}

/// Parts of the memory of sampling, one after the other.
Status Compiler::reserve_samples() {
  samples_ = true;
  SampleArgs args{};
  args.logits = logits_;
  args.parts = parts_of(vocabulary_, kSampleColumns);
  args.ids = columns_.device_ids();
  std::int64_t bytes = 0;
  const auto place = [&](auto& part, std::int64_t count) {
    using Part = std::remove_reference_t<decltype(part)>;
    part = reinterpret_cast<Part>(sample_memory_.at(bytes));
    bytes = round_up(bytes + count * options_.max_logit_rows * static_cast<std::int64_t>(sizeof *part), 256);
  };
  const auto place_all = [&] {
    bytes = 0;
    place(args.scores, args.parts), place(args.score_tokens, args.parts);
    place(args.tops, args.parts), place(args.top_places, args.parts);
    place(args.bins, kSampleBins), place(args.counts, 1);
    place(args.values, kMaxCandidates), place(args.tokens, kMaxCandidates);
  };
  place_all();
  sample_memory_ = Memory(device_, static_cast<std::size_t>(bytes));
  if (sample_memory_.empty()) return no_memory(*device_, "sampling", bytes, "use fewer slots");
  place_all();
  args.sampled = step_.sampled(), args.mirror = round_->mirror();
  sample_args_ = args;
  return {};
}

Status Compiler::make(const Sample&) {
  FT_TRY(reserve_samples());
  const SampleArgs args = sample_args_;
  operations_.emplace_back([args](const StepRun& step) {
    if (step.shape.samples == DeviceSamples::kNone || step.shape.logit_rows == 0) return;
    SampleArgs own = args;
    own.step = step.table;
    launch_samples(step.device, own, step.shape.samples, step.shape.logit_rows);
  });
  return {};
}

void launch_samples(Device& device, const SampleArgs& args, DeviceSamples kind, int rows) {
  const Grid all{args.parts, rows}, one{rows};
  device.launch({"sample_tops", all, 256}, &args);
  device.launch({"sample_greedy", one, 256}, &args);
  if (kind == DeviceSamples::kGreedy) return;
  device.launch({"sample_draws", all, 256}, &args);
  device.launch({"sample_best", one, 256}, &args);
  if (kind == DeviceSamples::kDraws) return;
  device.launch({"sample_bins", all, 256}, &args);
  device.launch({"sample_candidates", all, 256}, &args);
  device.launch({"sample_filtered", one, 256}, &args);
}

}  // namespace ft::cuda
