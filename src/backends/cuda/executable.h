// A program on the GPU: its instructions as launches in order, with what can be joined joined (a norm makes
// the codes of the linears after it, a linear adds what is added to it). A step of few rows is recorded as a
// graph when its shape has come several times; later steps of that shape are one launch. Samples with
// penalties, biases or masks are launched after the step. submit() waits for nothing, except where the host
// must sample (device_samples()). Thread: the engine thread. Cost: one wait a round. Errors: compile()
// returns them; submit(), submit_samples() and collect() throw DeviceError or BackendLost.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/row_plan.h"
#include "backends/cuda/rows.h"
#include "backends/cuda/sample_memory.h"
#include "backends/cuda/state.h"
#include "backends/cuda/step_memory.h"
#include "backends/cuda/weights.h"
#include "backends/extra_ids.h"
#include "program/backend.h"
#include "sampling/sample.h"

namespace ft::cuda {

/// The name as text that lives for ever, as Launch wants it.
const char* kernel_name(std::string name);

inline constexpr WeightKind kStreamedKind{4, 64, false};  // of the linears that are made for Hopper
inline constexpr int kMaxAsyncRows = 96;                  // of a block of kernels/sm90_gemm.cu
inline constexpr int kGraphRows = 64;  // steps of more rows are launched one by one: their kernels are long
inline constexpr int kSplitRows = 32;  // steps of more rows attend without splitting the cache

inline constexpr std::int64_t kMixtureRoutesBytes = round_up(sizeof(MixtureRoutes), 256);

/// Instructions that kernels/mixture.cu does together when rows are few, by number; -1: there is none.
struct Mixture {
  int linear = -1, first_weight = 0;  // gate and up of the expert that every row passes: two of its matrices
  int swiglu = -1, route = -1, shared = -1, experts = -1, gate = -1, sum = -1;
  int last = -1;                     // where it is done
  int chosen = 0, inner_groups = 0;  // experts of a row; groups of an inner row, the longest one

  /// Shared memory of a block of mixture_down.
  int shared_bytes(int rows) const;
};

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(std::shared_ptr<Device> device, std::shared_ptr<WeightStore> weights,
                 std::shared_ptr<RoundTokens> round, const CompileOptions& options, int kv_bits);
  ~CudaExecutable() override { round_->forget(); }  // the buffers of steps that nobody collected go as well
  Status build(const Program& program);

  void submit(const StepArgs& args, State& state) override;
  bool samples_later() const override { return true; }
  void submit_samples(const StepArgs& args) override;
  StepResult collect() override;
  StepResult run(const StepArgs& args, State& state) override {
    submit(args, state);
    return collect();
  }
  int vocabulary() const override { return static_cast<int>(vocabulary_); }
  std::span<const std::int32_t> ids() const override { return extra_.empty() ? ids_ : extra_.ids(); }
  void add_draft_tokens(std::span<const std::int32_t> tokens) override;
  std::int64_t packed_bytes() const override;

 private:
  /// What a step's launches point to.
  struct Places {
    const CudaState* state = nullptr;
    const CudaRows* hidden = nullptr;
    std::array<const CudaRows*, kMaxCaptures> captures{};
    const CudaRows* embeddings = nullptr;
    auto operator<=>(const Places&) const = default;
  };
  using Operation = std::function<void(const StepShape&, const Places&)>;
  struct GraphKey {
    StepShape shape;
    Places places;
    auto operator<=>(const GraphKey&) const = default;
  };

  /// With a profiler: the index in times_ of the instruction that ends at each stamp after the first.
  using Stamps = std::vector<int>;

  /// A product of weights and the rows of one matrix.
  struct Product {
    std::shared_ptr<const PackedMatrix> matrix;
    View in, out, residual;
    int outputs = 0;
    bool logit_rows = false;                   // of the step's logit rows only
    int first_weight = 0;                      // of its linear
    std::shared_ptr<const PackedMatrix> also;  // a second one of plain weights, in the same launch
    View also_out;
  };

  /// A linear of the experts that a row goes to, one output row for each pair of a row and an expert.
  struct ExpertProduct {
    std::shared_ptr<const PackedMatrix> matrix;
    int tiles = 0;  // of an expert
    View in, out;
    int pairs_a_row = 1;
  };
  /// Where the experts' rows lie between their kernels: of all layers in turn.
  struct ExpertSizes {
    std::int64_t pairs = 0, expert_tiles = 0, experts = 0, inner_floats = 0, out_floats = 0;
  };

  // operations.cpp, attend.cpp, linear.cpp, experts.cpp
  Status reserve(const Program& program);
  void plan_codes(const Weight& weight, int rows);
  void plan_attend(const Attention& op);
  template <class T>
  Result<const T*> retain(Result<Memory> memory) {
    if (!memory.ok()) return memory.error();
    retained_.push_back(std::move(*memory));
    return retained_.back().at<const T>();
  }
  Status make(const Embed& op);
  Status make(const Input& op);
  Status make(const Norm& op);
  Status make(const Linear& op);
  Status make(const Attention& op);
  Status make(const CausalConv1d& op);
  Status make(const LocalConv& op);
  Status make(const DeltaRule& op);
  Status make(const GatedNorm& op);
  Status make(const Swiglu& op);
  Status make(const Geglu& op);
  Status make(const TopKRouter& op);
  Status make(const MoeMlp& op);
  Status make(const SigmoidGate& op);
  Status make(const Add& op);
  Status make(const LayerNorm& op);
  Status make(const Gelu& op);
  Status make(const Bias& op);
  Status make(const Scale& op);
  Status make(const Concat& op);
  Status make(const Slice& op);
  Status make(const Capture& op);
  Status make(const Logits& op);
  Status make(const ClusterLogits& op);
  Status make(const Sample& op);
  Status make(const Walk& op);
  Status add_rotary(const Attention& op, AttendArgs& args);
  void launch_attend(AttendArgs& args, int queries);
  bool begins_delta_step() const;
  Status make_extra_head(const Logits& op);
  Result<std::shared_ptr<const PackedMatrix>> head_of(const Logits& op);
  void plan_experts(const MoeMlp& op, int max_weight_bits);
  Status reserve_experts();
  ExpertTiles expert_tiles(int rows, int chosen, int experts) const;
  Status add_expert_products(const std::vector<const Weight*>& weights, ExpertProduct product,
                             const MoeMlp& op);
  void add_expert_tiles(const MoeMlp& op);
  Status add_inner(const MoeMlp& op, View gates, View ups);
  void add_expert_product(const ExpertProduct& product, int chosen, int experts);
  void find_mixtures(const Program& program);
  const Mixture* mixture_with(int number) const;
  void leave_to_mixture(std::size_t first, const Mixture& mixture);
  bool supports(const Mixture& mixture, int rows) const;
  Result<std::shared_ptr<const PackedMatrix>> experts_matrix(const MoeMlp& op, bool inner, int max_bits);
  Status make_mixture(const Mixture& mixture);
  void add_mixture(const MixtureArgs& made, const Mixture& mixture, View in, int experts);
  void add_expert_codes(View in, int chosen, const WeightKind& kind);
  Status add_activation(const MoeMlp& op, View gate, View up);
  void add_pair(const char* kernel, View a, View b, View out);
  void add_scale(View in, View out, float factor);
  void add_soft_cap(const Logits& op);
  Result<std::vector<Product>> products_of(const Linear& op);
  void add_product(const Product& product, int row_id);
  void add_plain_product(const Product& product);
  void add_codes(View in, int row_id, int cols, int group, bool logit_rows, const FusedProducer& instead);
  bool streams(const WeightKind& kind) const;
  bool launch_async(const LinearArgs& args);
  bool launch_stream(const LinearArgs& args, const FusedProducer& producer);
  const unsigned char* swizzle(const LinearArgs& args, int height);
  static bool makes_codes(const FusedProducer& producer, int rows, int cols);
  void offer_producer(Row out, const FusedProducer& producer);
  /// What was offered for the row; kFromCodes: nothing.
  FusedProducer offered(Row out) const { return out.id == producer_row_ ? producer_ : FusedProducer{}; }
  int codes_group_after(Row out) const;
  bool codes_suffice(Row out, int group) const;
  QuantisedRowsOut codes_for_next(Row out, View& rows);
  View view(Row row) const { return plan_->view(row, arena_.at()); }

  // executable.cpp
  void start(const GraphKey& step);
  void enqueue(const GraphKey& step);
  void prepare(const StepShape& shape);
  void record(const GraphKey& step);
  void record_now(const GraphKey& step);

  // profile.cpp: only if the caller gave a profiler
  void profile(const Program& program);
  void enqueue_timed(const GraphKey& step);
  void start_timed(const GraphKey& step);
  void tell_profiler(const GraphKey& step, std::int64_t begin_ns);
  void launch_samples(const SampleArgs& args, DeviceSamples kind, int rows);
  void expect_samples(const StepArgs& args);
  void sample(const StepArgs& args);
  void fill_extra_head(std::span<const std::int32_t> before);

  std::shared_ptr<Device> device_;
  std::shared_ptr<WeightStore> weights_;
  std::shared_ptr<RoundTokens> round_;
  CompileOptions options_;
  int kv_bits_;
  const Program* program_ = nullptr;  // while it is built
  int number_ = 0;                    // of the instruction that is being made
  std::unique_ptr<RowPlan> plan_;
  std::unique_ptr<StatePlan> state_plan_;
  std::vector<Operation> operations_;
  std::vector<int> made_for_;  // by operation: its instruction
  StepMemory step_;
  SampleMemory late_;

  Memory arena_, codes_, code_scales_, swizzled_, logits_memory_, queries_, partials_;
  ExpertSizes expert_sizes_;
  Memory expert_rows_, expert_tile_memory_, mixture_rows_;
  std::vector<Mixture> mixtures_;
  std::int64_t mixture_bytes_ = 0;
  bool mixture_codes_there_ = false;  // codes_ holds the rows of the mixture's first linear after it
  std::int64_t code_bytes_ = 0, code_scale_floats_ = 0, swizzled_bytes_ = 0, query_floats_ = 0,
               partial_floats_ = 0;
  int codes_row_ = -1, codes_group_ = 0;  // what codes_ holds where the next operation runs
  FusedProducer producer_{};              // what the next linear may make codes from, if it reads this row
  int producer_row_ = -1;
  DeltaStepArgs delta_step_{};    // of the convolution and delta rule before a gated norm,
  int delta_step_end_ = -1;       // which is this instruction
  std::vector<Memory> retained_;  // vectors, small matrices, tables
  struct Rotary {
    const Attention* op;
    const float *cosines, *sines;
  };
  std::vector<Rotary> rotaries_;
  std::vector<std::shared_ptr<const PackedMatrix>> packed_;

  std::int64_t vocabulary_ = 0;
  std::vector<std::int32_t> ids_;
  ExtraIdTable extra_;
  Weight extra_head_;
  std::shared_ptr<PackedMatrix> extra_matrix_;
  Memory order_;  // column of the product by column of the logits
  std::int64_t fixed_columns_ = 0;
  View logits_{};
  bool samples_ = false;
  SampleArgs sample_args_{};          // but for the step
  StepShape shape_;                   // of the step that was submitted last
  Memory sample_memory_, id_memory_;  // of kernels/sample.cu; ids of the columns
  SampleScratch scratch_;
  std::vector<std::int32_t> resolved_;  // tokens of a step whose samples the host takes
  StepResult result_;                   // of the last step, once it has ended
  std::map<GraphKey, std::unique_ptr<Graph>> graphs_;
  std::map<GraphKey, int> seen_;       // steps of a shape before it has a graph
  int profiled_as_ = 0;                // the profiler's name for this executable
  std::vector<OperationTime> times_;   // the table's copy, then by instruction; empty without a profiler
  std::map<GraphKey, Stamps> stamps_;  // of the last steps of each shape
};

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            std::shared_ptr<Device> device,
                                            std::shared_ptr<WeightStore> weights,
                                            std::shared_ptr<RoundTokens> round, int kv_bits);
/// kUnsupported, with what is lacking, if compile() would refuse the program for want of a kernel.
Status check_supported(const Program& program);

}  // namespace ft::cuda
