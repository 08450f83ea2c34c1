// The instructions that only drafters use.
#include <algorithm>

#include "backends/cuda/compiler.h"

namespace ft::cuda {

Status Compiler::make(const LocalConv& op) {
  LocalConvArgs args{};
  args.in = view(op.in), args.coefficients = view(op.coefficients), args.out = view(op.out);
  FT_ASSIGN(args.base, retain<float>(weights_->floats(op.base)));
  args.taps = op.taps, args.groups = op.groups, args.group_size = op.in.width / op.groups;
  args.side = op.side;
  operations_.emplace_back([args](const StepRun& step) mutable {
    args.step = step.table;
    step.device.launch(
        {"local_conv", {parts_of(args.in.width, 256), step.shape.most_rows, step.shape.segments}, 256},
        &args);
  });
  return {};
}

Result<TablePlace> Compiler::table_of(const Weight& weight) {
  FT_ASSIGN(const std::shared_ptr<const PackedMatrix> matrix, weights_->matrix({&weight}));
  packed_.push_back(matrix);
  TablePlace place{};
  if (matrix->kind.bits == 0) {
    place.plain = matrix->memory.at(), place.stride = static_cast<int>(matrix->padded);
  } else {
    place.records = matrix->memory.at<unsigned char>(), place.groups = matrix->groups();
  }
  place.wide = matrix->kind.wide ? 1 : 0;
  place.bits = matrix->kind.bits, place.group = matrix->kind.group;
  place.scale_type = matrix->kind.scale_type;
  return place;
}

Status Compiler::make(const ClusterLogits& op) {
  ClusterArgs args{};
  args.in = view(op.in), args.routes = view(op.routes);
  FT_ASSIGN(args.table, table_of(op.table));
  args.chosen = op.chosen(), args.size = op.cluster_size(), args.softcap = op.softcap;
  const std::size_t bytes = op.tokens.size() * sizeof(int);
  retained_.emplace_back(device_, bytes);
  logits_memory_ = Memory(device_, static_cast<std::size_t>(vocabulary_ * options_.max_logit_rows * 4));
  if (retained_.back().empty() || logits_memory_.empty())
    return no_memory(*device_, "logits", vocabulary_ * options_.max_logit_rows * 4, "use fewer slots");
  device_->copy_in(retained_.back().at(), op.tokens.data(), bytes);
  args.tokens = retained_.back().at<int>();
  const auto width = static_cast<int>(vocabulary_);
  logits_ = args.logits = {logits_memory_.at<float>(), width, width};
  operations_.emplace_back([args](const StepRun& step) mutable {
    if (step.shape.logit_rows == 0) return;
    args.step = step.table;
    const int rows = step.shape.logit_rows;
    step.device.launch({"cluster_fill", {parts_of(args.logits.width, 256), rows}, 256}, &args);
    step.device.launch({"cluster_logits", {parts_of(args.chosen * args.size, 8), rows}, 256}, &args);
  });
  return {};
}

Status Compiler::make(const Walk& op) {
  FT_TRY(reserve_samples());
  walk_.emplace(CompiledWalk{{}, Walker(op), options_.max_logit_rows});
  WalkArgs& walk = walk_->args;
  walk.factors = op.factors.id < 0 ? View{} : view(op.factors);
  FT_ASSIGN(walk.predecessor, table_of(op.predecessor));
  FT_ASSIGN(walk.successor, table_of(op.successor));
  walk.rank = static_cast<int>(op.predecessor.cols);
  walk.candidates = op.candidates, walk.excluded = op.excluded;
  const std::int64_t of_rows = std::int64_t{options_.max_logit_rows} * op.candidates;
  const std::int64_t of_parts = of_rows * sample_args_.parts;
  retained_.emplace_back(device_, static_cast<std::size_t>((of_rows + of_parts) * 8));
  if (retained_.back().empty())
    return no_memory(*device_, "a walk", (of_rows + of_parts) * 8, "use fewer slots");
  walk.part_values = retained_.back().at<float>();
  walk.values = walk.part_values + of_parts;
  walk.part_columns = reinterpret_cast<int*>(walk.values + of_rows);
  walk.columns = walk.part_columns + of_parts;
  operations_.emplace_back([walk, samples = sample_args_](const StepRun& step) {
    if (step.shape.samples == DeviceSamples::kNone || step.shape.logit_rows == 0) return;
    SampleArgs own = samples;
    own.step = step.table;
    launch_walk(step.device, walk, own, step.shape);
  });
  return {};
}

void launch_walk(Device& device, WalkArgs walk, const SampleArgs& args, const StepShape& shape) {
  walk.sample = args, walk.logit_rows = shape.logit_rows;
  device.launch({"walk_tops", {args.parts, shape.logit_rows}, 256}, &walk);
  device.launch({"walk_candidates", {shape.logit_rows}, 256}, &walk);
  device.launch({"walk", {shape.segments}, 256}, &walk);
}

}  // namespace ft::cuda
