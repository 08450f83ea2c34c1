// Which instructions of a program are a mixture of experts that kernels/mixture.cu does in three launches
// when a step has few rows; a step of more rows takes a launch for each part (experts.cpp).
#include <algorithm>

#include "backends/cuda/compiler.h"

namespace ft::cuda {
namespace {

using Instructions = std::vector<Instruction>;

constexpr int kInnerBlocksOfAnSm = 3;  // by their registers

/// The instruction before `end` that writes the row; -1: none.
int writer_of(const Instructions& list, Row row, int end) {
  for (int i = end - 1; i >= 0; --i) {
    const Uses uses = uses_of(list[static_cast<std::size_t>(i)]);
    if (std::ranges::any_of(uses.writes, [row](Row own) { return own.id == row.id; })) return i;
  }
  return -1;
}

template <class Op>
const Op* op_at(const Instructions& list, int index) {
  if (index < 0 || index >= std::ssize(list)) return nullptr;
  return std::get_if<Op>(&list[static_cast<std::size_t>(index)]);
}

bool is_streamed(const Weight& stored, int max_weight_bits) {
  const auto kind = kind_of(requantised_as(stored, max_weight_bits));
  return kind.ok() && *kind == kStreamedKind;
}

class MixtureFinder {
 public:
  MixtureFinder(const Program& program, const RowPlan& plan)
      : list_(program.instructions()), plan_(plan), bits_(program.max_weight_bits()) {}

  std::optional<Mixture> at(int index) const {
    const auto* experts = op_at<MoeMlp>(list_, index);
    if (experts == nullptr || experts->chosen() > kMixturePairs ||
        experts->gate.size() > static_cast<std::size_t>(kMixtureExperts) || experts->biased() ||
        experts->activation == Activation::kClampedSwiglu)
      return std::nullopt;
    for (const auto* weights : {&experts->gate, &experts->up, &experts->down}) {
      if (!is_streamed(weights->front(), bits_)) return std::nullopt;
    }
    Mixture mixture;
    mixture.experts = mixture.last = index;
    mixture.chosen = experts->chosen(), mixture.inner_groups = experts->size() / 64;
    mixture.route = writer_of(list_, experts->routes, index);
    const auto* route = op_at<TopKRouter>(list_, mixture.route);
    if (route == nullptr || !read_once(experts->routes)) return std::nullopt;
    if (route->score != RouterScore::kSoftmax || route->factor != 1) return std::nullopt;  // mixture_routes
    find_tail(*experts, mixture);
    if (mixture.last - mixture.route > kMixtureSpan) return std::nullopt;
    return mixture;
  }

 private:
  bool read_once(Row row) const { return plan_.readers(row) == 1; }

  /// The expert that every row passes, with its gate, and the additions: all of them right after the experts.
  void find_tail(const MoeMlp& experts, Mixture& mixture) const {
    const int index = mixture.experts;
    const auto* gate = op_at<SigmoidGate>(list_, index + 1);
    const auto* sum = op_at<Add>(list_, index + 2);
    const auto* stream = op_at<Add>(list_, index + 3);
    if (gate == nullptr || sum == nullptr || stream == nullptr) return;
    const auto adds = [](const Add& add, Row a, Row b) {
      return (add.a.id == a.id && add.b.id == b.id) || (add.a.id == b.id && add.b.id == a.id);
    };
    if (!adds(*sum, experts.out, gate->out) ||
        !(stream->a.id == sum->out.id) == !(stream->b.id == sum->out.id))
      return;
    Mixture with = mixture;
    with.shared = writer_of(list_, gate->in, index);
    const auto* down = op_at<Linear>(list_, with.shared);
    if (down == nullptr || down->weights.size() != 1 || !is_streamed(down->weights[0], bits_)) return;
    with.swiglu = writer_of(list_, down->in, with.shared);
    const auto* inner = op_at<Swiglu>(list_, with.swiglu);
    if (inner == nullptr || experts.activation != Activation::kSilu) return;
    with.linear = writer_of(list_, inner->gate, with.swiglu);
    const auto* linear = op_at<Linear>(list_, with.linear);
    if (linear == nullptr || linear->in.id != experts.in.id || !find_pair(*linear, *inner, with)) return;
    for (const Row row : {experts.out, gate->in, gate->out, sum->out, down->in, inner->gate, inner->up}) {
      if (!read_once(row)) return;
    }
    with.gate = index + 1, with.sum = index + 2, with.last = index + 3;
    with.inner_groups = std::max(mixture.inner_groups, down->in.width / 64);
    if (with.last - with.route <= kMixtureSpan) mixture = with;
  }

  /// Gate and up lie side by side in the linear, and no other weights share their layout.
  bool find_pair(const Linear& linear, const Swiglu& inner, Mixture& mixture) const {
    const auto gate = std::ranges::find(linear.outs, inner.gate.id, &Row::id);
    const auto at = static_cast<std::size_t>(gate - linear.outs.begin());
    if (at + 1 >= linear.outs.size() || linear.outs[at + 1].id != inner.up.id) return false;
    const auto streamed = [&](std::size_t i) { return is_streamed(linear.weights[i], bits_); };
    mixture.first_weight = static_cast<int>(at);
    return streamed(at) && streamed(at + 1) && (at == 0 || !streamed(at - 1)) &&
           (at + 2 == linear.outs.size() || !streamed(at + 2)) &&
           linear.weights[at].rows == linear.weights[at + 1].rows;
  }

  const Instructions& list_;
  const RowPlan& plan_;
  int bits_;
};

}  // namespace

void Compiler::find_mixtures(const Program& program) {
  if (arithmetic_ != Arithmetic::kCodes) return;  // kernels/mixture.cu multiplies codes
  const MixtureFinder finder(program, *plan_);
  std::int64_t floats = 0;
  for (int i = 0; i < std::ssize(program.instructions()); ++i) {
    const std::optional<Mixture> found = finder.at(i);
    if (!found) continue;
    mixtures_.push_back(*found);
    const auto& list = program.instructions();
    int width = std::get<MoeMlp>(list[static_cast<std::size_t>(i)]).size();
    if (found->shared >= 0)
      width = std::max(width, std::get<Linear>(list[static_cast<std::size_t>(found->shared)]).in.width);
    floats = std::max(floats, (kMixturePairs + 1) * kMixtureRows * round_up(width, kTileOutputs));
  }
  mixture_bytes_ = floats == 0 ? 0 : kMixtureRoutesBytes + floats * 4;
}

/// The mixture that includes instruction `number` when rows are few; null: none does.
const Mixture* Compiler::mixture_with(int number) const {
  const auto found = std::ranges::find_if(mixtures_, [number](const Mixture& m) {
    return number == m.swiglu || number == m.route || number == m.shared || number == m.experts ||
           number == m.gate || number == m.sum || number == m.last;
  });
  return found == mixtures_.end() ? nullptr : &*found;
}

/// The operations from `first` on are left out of steps whose rows a mixture takes.
void Compiler::leave_to_mixture(std::size_t first, const Mixture& mixture) {
  for (std::size_t i = first; i < operations_.size(); ++i) {
    operations_[i] = [mixture, whole = std::move(operations_[i])](const StepRun& step) {
      if (!mixture.supports(step.shape.rows, step.device)) whole(step);
    };
  }
}

bool Mixture::supports(int rows, const Device& device) const {
  const int of_slice = slice_groups(inner_groups), most = of_slice == 1   ? kMixtureRows
                                                          : of_slice == 2 ? 1
                                                                          : 0;
  return rows <= most && rows * chosen <= kMixturePairs && held(rows, device) > 0;
}

int Mixture::held(int rows, const Device& device) const {
  constexpr int kOwn = 8 << 10;  // static shared memory of mixture_down's block
  const int all = static_cast<int>(round_up(rows * chosen + 1, kMixtureHeldStep));
  const int room = device.facts().shared_bytes - kOwn - shared_bytes(rows, 0);
  return std::min(all, room / (kSplitK * kWarpSumBytes) / kMixtureHeldStep * kMixtureHeldStep);
}

int Mixture::shared_bytes(int rows, int held) const {
  return mixture_layout(rows * (chosen + 1), inner_groups, held).bytes;
}

Status Compiler::make_mixture(const Mixture& mixture) {
  const auto& list = program_->instructions();
  const auto& experts = std::get<MoeMlp>(list[static_cast<std::size_t>(mixture.experts)]);
  const auto& route = std::get<TopKRouter>(list[static_cast<std::size_t>(mixture.route)]);
  const int size = experts.size(), max_bits = program_->max_weight_bits();
  MixtureArgs args{};
  args.route = {view(route.scores), {}, nullptr, route.chosen, route.renormalised ? 1 : 0, nullptr, 1, 0};
  FT_ASSIGN(args.route.scale, retain<float>(weights_->floats(route.scale)));
  args.codes = codes_.codes->at<signed char>(), args.scales = codes_.scales.at<float>();
  FT_ASSIGN(const auto inner, experts_matrix(experts, true, max_bits));
  FT_ASSIGN(const auto down, experts_matrix(experts, false, max_bits));
  args.inner = inner->memory.at<unsigned char>(), args.down = down->memory.at<unsigned char>();
  args.tiles = parts_of(size, kTileOutputs), args.out_tiles = parts_of(experts.out.width, kTileOutputs);
  args.groups = inner->groups(), args.down_groups = down->groups();
  args.gelu = experts.activation == Activation::kGeluTanh ? 1 : 0;
  if (const Add* const sum = plan_->sum_of(mixture.experts)) {
    args.out = view(sum->out), args.residual = view(other_of(*sum, experts.out));
  } else {
    args.out = view(experts.out);
  }
  int width = size;
  if (mixture.shared >= 0) {
    const auto& linear = std::get<Linear>(list[static_cast<std::size_t>(mixture.linear)]);
    const auto& shared = std::get<Linear>(list[static_cast<std::size_t>(mixture.shared)]);
    const auto first = static_cast<std::size_t>(mixture.first_weight);
    const Weight gate = weights_->reduced(linear.weights[first], max_bits),
                 up = weights_->reduced(linear.weights[first + 1], max_bits),
                 of_shared = weights_->reduced(shared.weights[0], max_bits);
    FT_ASSIGN(const auto both, weights_->matrix({&gate, &up}));
    FT_ASSIGN(const auto last, weights_->matrix({&of_shared}));
    args.shared_inner = both->memory.at<unsigned char>(), args.shared_down = last->memory.at<unsigned char>();
    args.shared_tiles = parts_of(gate.rows, kTileOutputs), args.shared_groups = last->groups();
    args.shared_gate = view(std::get<SigmoidGate>(list[static_cast<std::size_t>(mixture.gate)]).gate);
    const auto& sum = std::get<Add>(list[static_cast<std::size_t>(mixture.sum)]);
    const auto& stream = std::get<Add>(list[static_cast<std::size_t>(mixture.last)]);
    args.residual = view(other_of(stream, sum.out));
    args.out = view(stream.out);
    width = std::max(width, shared.in.width);
  }
  const auto stride = static_cast<int>(round_up(width, kTileOutputs));
  args.routes = mixture_rows_.at<MixtureRoutes>();
  args.inner_rows = {mixture_rows_.at<float>(kMixtureRoutesBytes), stride, width};
  add_mixture(args, mixture, view(experts.in), static_cast<int>(experts.gate.size()));
  return {};
}

void Compiler::add_mixture(const MixtureArgs& made, const Mixture& mixture, View in, int experts) {
  const QuantiseArgs codes{in, nullptr, codes_.rows(in.width, kStreamedKind.activations(arithmetic_))};
  const bool there = mixture_codes_there_;
  operations_.emplace_back([=, args = made](const StepRun& step) mutable {
    if (!mixture.supports(step.shape.rows, step.device)) return;
    args.rows = step.shape.rows;
    if (!there) step.device.launch({"quantise", {parts_of(codes.out.k, 2048), step.shape.rows}, 128}, &codes);
    const int pairs = step.shape.rows * args.route.chosen, others = args.shared_inner != nullptr ? 1 : 0;
    step.device.launch({"mixture_routes", {1}, 256}, &args);
    const int tiles = std::min(pairs, experts) * args.tiles + others * args.shared_tiles;
    args.inner_blocks = std::min(tiles, kInnerBlocksOfAnSm * step.device.facts().processors);
    args.held = mixture.held(step.shape.rows, step.device);
    step.device.launch({"mixture_inner", {args.inner_blocks}, 256}, &args);
    step.device.launch({"mixture_down",
                        {args.out_tiles},
                        kMixtureDownThreads,
                        mixture.shared_bytes(step.shape.rows, args.held)},
                       &args);
  });
  made_for_.resize(operations_.size() - 1, number_);
  made_for_.push_back(mixture.experts);
}

}  // namespace ft::cuda
