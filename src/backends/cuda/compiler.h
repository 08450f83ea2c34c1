// How a program becomes launches (compiled.h): instructions are fused where possible (a norm makes the codes
// of the linears after it, a linear does the addition after it), rows get places, weights are packed, and
// memory is allocated once for all steps. Owner: compile(), while it runs. Thread: the engine thread. Errors:
// no memory; DeviceError and BackendLost are thrown.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/compiled.h"
#include "backends/cuda/kernel_name.h"
#include "backends/cuda/linear_kernels.h"
#include "backends/cuda/row_plan.h"

namespace ft::cuda {

inline constexpr std::int64_t kMixtureRoutesBytes = round_up(sizeof(MixtureRoutes), 256);

/// The instructions that kernels/mixture.cu runs together when rows are few, by number; -1: there is none.
struct Mixture {
  int linear = -1, first_weight = 0;  // gate and up of the expert that every row passes: two of its matrices
  int swiglu = -1, route = -1, shared = -1, experts = -1, gate = -1, sum = -1;
  int last = -1;                     // where it is done
  int chosen = 0, inner_groups = 0;  // experts of a row; groups of an inner row, the longest one

  /// Shared memory of a block of mixture_down that holds the sums of `held` experts.
  int shared_bytes(int rows, int held) const;
  /// The number of experts whose sums a block holds: all of them, or as many as fit.
  int held(int rows, const Device& device) const;
  /// Whether it runs a step of `rows` rows: if it is faster than a launch for each part (decision 040).
  bool supports(int rows, const Device& device) const;
};

/// The places of the tiles of a step's pairs: the experts of all tiles, then the pairs of all tiles.
struct TileMemory {
  int* at = nullptr;
  std::int64_t tiles = 0;  // of the largest step
  ExpertTiles of(int rows, int chosen, int experts) const;
};

/// What the backend's flags choose.
struct Precision {
  int kv_bits = 16;
  Arithmetic arithmetic = Arithmetic::kCodes;
};

class Compiler {
 public:
  Compiler(std::shared_ptr<Device> device, std::shared_ptr<WeightStore> weights,
           std::shared_ptr<Scratch> scratch, std::shared_ptr<RoundTokens> round,
           const CompileOptions& options, const Precision& precision);
  Result<CompiledProgram> compile(const Program& program);

 private:
  /// A product of weights and the rows of one matrix.
  struct Product {
    std::shared_ptr<const PackedMatrix> matrix;
    View in, out, residual;
    const float* bias = nullptr;  // [outputs]
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
  /// The places of the experts' rows between their kernels, shared by all layers in turn.
  struct ExpertSizes {
    std::int64_t pairs = 0, expert_tiles = 0, experts = 0, inner_floats = 0, out_floats = 0;
  };

  // compiler.cpp, operations.cpp, attend.cpp, linear.cpp, experts.cpp, mixture.cpp, logits.cpp, draft.cpp
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
  Status make(const NormChain& chain);
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
  bool begins_delta_step() const;
  Result<std::shared_ptr<const PackedMatrix>> head_of(const Logits& op);
  void plan_experts(const MoeMlp& op, int max_weight_bits);
  Status reserve_experts();
  TileMemory tile_memory() const { return {expert_tile_memory_.at<int>(), expert_sizes_.expert_tiles}; }
  Status add_expert_products(const std::vector<const Weight*>& weights, ExpertProduct product,
                             const MoeMlp& op);
  void add_expert_tiles(const MoeMlp& op);
  Status add_inner(const MoeMlp& op, View gates, View ups, const WeightKind& down);
  void add_expert_product(const ExpertProduct& product, int chosen, int experts);
  void find_mixtures(const Program& program);
  const Mixture* mixture_with(int number) const;
  void leave_to_mixture(std::size_t first, const Mixture& mixture);
  Result<std::shared_ptr<const PackedMatrix>> experts_matrix(const MoeMlp& op, bool inner, int max_bits);
  Status make_mixture(const Mixture& mixture);
  void add_mixture(const MixtureArgs& made, const Mixture& mixture, View in, int experts);
  Status add_activation(const MoeMlp& op, View gate, View up, const WeightKind& down);
  void add_pair(const char* kernel, View a, View b, View out);
  void add_gated(const char* kernel, const char* with_codes, View gate, View up, Row out);
  void add_scale(View in, View out, float factor);
  void add_soft_cap(const Logits& op);
  Status reserve_samples();
  Result<TablePlace> table_of(const Weight& weight);
  Result<std::vector<Product>> products_of(const Linear& op);
  Result<const float*> biases_of(const std::vector<const Bias*>& biases);
  void add_product(const Product& product, int row_id);
  LinearCall call_of(const Product& product) const;
  void add_codes(View in, int row_id, ActivationFormat format, bool logit_rows, const FusedProducer& instead);
  void offer_producer(Row out, const FusedProducer& producer);
  /// The producer offered for the row; kFromCodes: none.
  FusedProducer offered(Row out) const { return out.id == producer_row_ ? producer_ : FusedProducer{}; }
  /// The kernel that makes codes, or its twin that makes halves.
  const char* maker(const char* of_codes, const char* of_halves) const {
    return arithmetic_ == Arithmetic::kHalves ? of_halves : of_codes;
  }
  ActivationFormat format_of(const Weight& stored) const;
  ActivationFormat format_after(Row out) const;
  bool only_read_in(ActivationFormat format, Row out) const;
  const Linear* linear_after() const;
  QuantisedRowsOut codes_for_next(Row out, View& rows);
  View view(Row row) const { return plan_->view(row, arena_->at()); }

  CompiledProgram finish();

  std::shared_ptr<Device> device_;
  std::shared_ptr<WeightStore> weights_;
  std::shared_ptr<Scratch> scratch_;
  std::shared_ptr<RoundTokens> round_;
  CompileOptions options_;
  int kv_bits_;
  Arithmetic arithmetic_;
  const Program* program_ = nullptr;
  int number_ = 0;  // of the instruction that is being made
  std::unique_ptr<RowPlan> plan_;
  std::unique_ptr<StatePlan> state_plan_;
  std::vector<Operation> operations_;
  std::vector<int> made_for_;  // by operation: its instruction
  StepMemory step_;

  SharedMemory arena_, linear_workspace_, queries_;
  Memory logits_memory_, sample_memory_;
  ActivationMemory codes_;
  ExpertSizes expert_sizes_;
  Memory expert_rows_, expert_tile_memory_, mixture_rows_;
  std::vector<Mixture> mixtures_;
  std::int64_t mixture_bytes_ = 0;
  bool mixture_codes_there_ = false;  // codes_ holds the rows of the mixture that is being made
  std::int64_t code_bytes_ = 0, code_scale_bytes_ = 0, workspace_bytes_ = 0, query_floats_ = 0,
               partial_floats_ = 0;
  HeldRow held_;              // in codes_ when the next operation runs
  FusedProducer producer_{};  // the next linear may make codes from it, if it reads this row
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
  ExtraHead columns_;
  View logits_{};
  bool samples_ = false;
  SampleArgs sample_args_{};
  std::optional<CompiledWalk> walk_;
};

Result<std::unique_ptr<Executable>> compile(const Program& program, const CompileOptions& options,
                                            std::shared_ptr<Device> device,
                                            std::shared_ptr<WeightStore> weights,
                                            std::shared_ptr<Scratch> scratch,
                                            std::shared_ptr<RoundTokens> round, const Precision& precision);
/// kUnsupported, with the name, if compile() would refuse the program because a kernel is missing.
Status check_supported(const Program& program);

}  // namespace ft::cuda
