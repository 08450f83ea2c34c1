// Linears: matrices of one kind are one product, and rows become codes before it unless an earlier kernel
// made them. linear_kernels.h chooses the kernel.
#include <algorithm>
#include <utility>

#include "backends/cuda/compiler.h"
#include "backends/weight_rows.h"

namespace ft::cuda {

/// Offers the producer to the next linear in place of codes, if that linear is one product and the row's only
/// reader.
void Compiler::offer_producer(Row out, const FusedProducer& producer) {
  producer_ = {}, producer_row_ = -1;
  const auto next = static_cast<std::size_t>(number_) + 1;
  if (!only_read_in(format_after(out), out)) return;
  const auto& linear = std::get<Linear>(program_->instructions()[next]);
  for (const Weight& stored : linear.weights) {
    const auto kind = kind_of(requantised_as(stored, program_->max_weight_bits()));
    if (!kind.ok() || !makes_codes(*kind, arithmetic_, *device_)) return;
  }
  producer_ = producer, producer_row_ = out.id;
}

/// Makes codes of the rows unless they exist. `instead`: the product may make the codes from this producer.
void Compiler::add_codes(View in, int row_id, ActivationFormat format, bool logit_rows,
                         const FusedProducer& instead) {
  const HeldRow row{row_id, format};
  if (!logit_rows && held_ == row) return;
  held_ = logit_rows || instead.kind != kFromCodes ? HeldRow{} : row;
  QuantiseArgs args{in, nullptr, codes_.rows(in.width, format)};
  const char* const kernel = maker("quantise", "quantise_half");
  operations_.emplace_back([args, instead, logit_rows, kernel](const StepRun& step) mutable {
    if (logit_rows) args.rows = step.table.logit_rows;
    const int rows = logit_rows ? step.shape.logit_rows : step.shape.rows;
    if (rows == 0 || makes_codes(instead, rows, args.out.k)) return;
    step.device.launch({kernel, {parts_of(args.out.k, 2048), rows}, 128}, &args);
  });
}

/// The call of the product, without the fields that differ from step to step.
LinearCall Compiler::call_of(const Product& product) const {
  const PackedMatrix& matrix = *product.matrix;
  LinearCall call;
  call.kind = matrix.kind, call.arithmetic = arithmetic_;
  if (call.packed()) {
    LinearArgs& args = call.args;
    args.records = matrix.memory.at<unsigned char>();
    args.codes = codes_.codes->at<signed char>();
    args.scales = codes_.scales.at<float>();
    args.out = product.out, args.residual = product.residual;
    args.tiles = parts_of(product.outputs, kTileOutputs);
    args.groups = matrix.groups();
    args.outputs = product.outputs;
    call.workspace = linear_workspace_->at<unsigned char>();
    return call;
  }
  PlainLinearArgs& args = call.plain;
  args.weights = matrix.memory.at();
  args.wide = matrix.kind.wide ? 1 : 0;
  args.k = static_cast<int>(matrix.cols), args.padded = static_cast<int>(matrix.padded);
  args.in = product.in, args.out = product.out, args.residual = product.residual;
  args.bias = product.bias;
  args.outputs = product.outputs;
  if (product.also != nullptr)
    args.also = {product.also->memory.at(), product.also_out, static_cast<int>(product.also->outputs)};
  const int outputs = args.outputs + args.also.outputs;
  args.block_outputs = outputs < 16 * device_->facts().processors ? 2 : 8;  // a router has work for all SMs
  return call;
}

void Compiler::add_product(const Product& product, int row_id) {
  const PackedMatrix& matrix = *product.matrix;
  if (std::ranges::find(packed_, product.matrix) == packed_.end()) packed_.push_back(product.matrix);
  if (product.also != nullptr) packed_.push_back(product.also);
  LinearCall call = call_of(product);
  FusedProducer producer{};
  if (call.packed()) {
    const HeldRow row{row_id, call.rows_format()};
    const bool there = held_ == row;
    if (there && row_id == producer_row_) producer = producer_;
    if (!there && makes_codes(call.kind, arithmetic_, *device_))
      producer = {kFromRows, product.in, nullptr, 0};
    if (product.logit_rows) producer = {};
    View in = product.in;
    in.width = static_cast<int>(matrix.cols);
    add_codes(in, row_id, row.format, product.logit_rows, producer);
  }
  const bool logit_rows = product.logit_rows;
  operations_.emplace_back([call, producer, logit_rows](const StepRun& step) mutable {
    const int rows = logit_rows ? step.shape.logit_rows : step.shape.rows;
    if (rows == 0) return;
    call.args.rows = call.plain.rows = rows;
    call.plain.row_list = logit_rows ? step.table.logit_rows : nullptr;
    call.producer = makes_codes(producer, rows, call.k()) ? producer : FusedProducer{};
    choose_linear(call, step.device).launch(call, step.device);
  });
}

/// The vectors side by side, each padded as its output is; null: there are none.
Result<const float*> Compiler::biases_of(const std::vector<const Bias*>& biases) {
  std::vector<float> all;
  for (const Bias* bias : biases) {
    const std::size_t first = all.size();
    all.resize(first + static_cast<std::size_t>(round_up(bias->in.width, kTileOutputs)));
    read_rows(bias->bias, 0, 1, all.data() + first);
  }
  if (all.empty()) return nullptr;
  return retain<float>(weights_->upload(all.data(), all.size() * sizeof(float)));
}

/// Matrices of one kind that lie side by side are one product.
Result<std::vector<Compiler::Product>> Compiler::products_of(const Linear& op) {
  const Add* const sum = plan_->sum_of(number_);
  const std::vector<const Bias*>& biases = plan_->biases_of(number_);
  std::vector<Weight> all;
  for (const Weight& weight : op.weights)
    all.push_back(weights_->reduced(weight, program_->max_weight_bits()));
  std::vector<Product> products;
  for (std::size_t first = 0; first < all.size();) {
    FT_ASSIGN(const WeightKind kind, kind_of(all[first]));
    std::vector<const Weight*> weights;
    std::size_t last = first;
    for (; last < all.size(); ++last) {
      FT_ASSIGN(const WeightKind other, kind_of(all[last]));
      if (!(other == kind)) break;
      weights.push_back(&all[last]);
    }
    Product product;
    FT_ASSIGN(product.matrix, weights_->matrix(weights));
    product.in = view(op.in);
    product.out = view(sum != nullptr ? sum->out : biases.empty() ? op.outs[first] : biases[0]->out);
    if (sum != nullptr) product.residual = view(other_of(*sum, biases.empty() ? op.outs[0] : biases[0]->out));
    FT_ASSIGN(product.bias, biases_of(biases));
    product.outputs = static_cast<int>(sum != nullptr ? all[first].rows : product.matrix->outputs);
    product.first_weight = static_cast<int>(first);
    products.push_back(std::move(product));
    first = last;
  }
  return products;
}

Status Compiler::make(const Linear& op) {
  const auto mixture = std::ranges::find(mixtures_, number_, &Mixture::linear);
  FT_ASSIGN(std::vector<Product> products, products_of(op));
  const auto plain_after = [&](std::size_t i) {
    return std::find_if(products.begin() + static_cast<std::ptrdiff_t>(i) + 1, products.end(),
                        [&](const Product& other) { return other.matrix->kind == products[i].matrix->kind; });
  };
  for (std::size_t i = 0; i < products.size(); ++i) {
    Product& product = products[i];
    if (product.matrix->kind.bits == 0) {
      if (const auto also = plain_after(i); also != products.end()) {  // one launch for both
        product.also = also->matrix, product.also_out = also->out;
        products.erase(also);
      }
    }
    add_product(products[i], op.in.id);
    if (mixture != mixtures_.end() && products[i].first_weight == mixture->first_weight)
      leave_to_mixture(operations_.size() - 1, *mixture);  // the product, not its codes
  }
  if (mixture != mixtures_.end())
    mixture_codes_there_ = held_ == HeldRow{op.in.id, kStreamedKind.activations(arithmetic_)};
  return {};
}

}  // namespace ft::cuda
