#include "models/head_doctor.h"

#include <algorithm>
#include <fmt/format.h>

namespace ft {
namespace {

using HeadState = HeadReport::State;

std::vector<std::string> matrix_names(int layers) {
  std::vector<std::string> names = {"mtp.fc"};
  for (int i = 0; i < layers; ++i) {
    for (const char* part : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                             "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
      names.push_back(fmt::format("mtp.layers.{}.{}", i, part));
    }
  }
  return names;
}

std::vector<std::string> norm_names(int layers) {
  std::vector<std::string> names = {"mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm"};
  for (int i = 0; i < layers; ++i) {
    for (const char* part :
         {"input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm"}) {
      names.push_back(fmt::format("mtp.layers.{}.{}", i, part));
    }
  }
  return names;
}

bool all_zero(const std::byte* data, std::size_t size) {
  return data == nullptr || std::all_of(data, data + size, [](std::byte b) { return b == std::byte{0}; });
}

/// True if all values are zero: no code and no bias differs from 0, or no plain value does.
bool zeroed(const Weight& weight) {
  if (!weight.quantised()) {
    return all_zero(weight.data,
                    static_cast<std::size_t>(weight.rows * weight.cols * element_bytes(weight.format)));
  }
  const auto scales = static_cast<std::size_t>(weight.rows * (weight.cols / weight.group) *
                                               element_bytes(weight.scale_format));
  const auto codes = static_cast<std::size_t>(weight.rows * weight.cols * weight.bits / 8);
  if (is_block_float(weight.format)) return all_zero(weight.data, codes);
  return all_zero(weight.biases, scales) && (all_zero(weight.scales, scales) || all_zero(weight.data, codes));
}

struct Shape {
  std::string name;
  std::int64_t rows, cols;
};

std::vector<Shape> matrix_shapes(const format::ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t q = static_cast<std::int64_t>(config.num_heads) * config.head_dim;
  const std::int64_t kv = static_cast<std::int64_t>(config.num_kv_heads) * config.head_dim;
  const std::int64_t inner = config.intermediate_size;
  const std::int64_t gated = config.attn_output_gate ? 2 : 1;
  const std::vector<std::pair<std::int64_t, std::int64_t>> sizes = {
      {q * gated, hidden}, {kv, hidden},    {kv, hidden},   {hidden, q},
      {inner, hidden},     {inner, hidden}, {hidden, inner}};
  std::vector<Shape> shapes = {{"mtp.fc", hidden, 2 * hidden}};
  const std::vector<std::string> names = matrix_names(config.mtp.layers);
  for (std::size_t i = 1; i < names.size(); ++i) {
    const auto& [rows, cols] = sizes[(i - 1) % sizes.size()];
    shapes.push_back({names[i], rows, cols});
  }
  return shapes;
}

std::string where(const Model& model) {
  return model.checkpoint->mtp_file().empty() ? model.directory : model.checkpoint->mtp_file();
}

}  // namespace

HeadReport::State state_after(const Error& error) {
  return error.code == Code::kExhausted ? HeadState::kNoMemory : HeadState::kWrongShape;
}

HeadReport examine_head(const Model& model, WeightSource& source) {
  const format::ModelConfig& config = model.config;
  HeadReport report;
  report.file = model.checkpoint->mtp_file();
  std::vector<std::string> present, absent;
  for (const auto& names : {matrix_names(config.mtp.layers), norm_names(config.mtp.layers)}) {
    for (const std::string& name : names) (source.has(name) ? present : absent).push_back(name);
  }
  const auto found = [&](HeadState state, std::string sentence) {
    report.state = state;
    report.sentence = "MTP head: " + std::move(sentence);
    return report;
  };
  if (config.mtp.layers == 0)
    return found(HeadState::kNone, "config.json names none; drafts come from n-gram lookup only");
  if (present.empty()) {
    return found(HeadState::kMissing,
                 fmt::format("missing: config.json names {} layer(s), no file of {} holds mtp.* tensors "
                             "(conversions often drop them); add the MTP head as mtp.safetensors",
                             config.mtp.layers, model.directory));
  }
  if (!absent.empty()) {
    return found(HeadState::kIncomplete,
                 fmt::format("incomplete: {} lacks {} ({} tensors absent); convert the model again",
                             where(model), absent.front(), absent.size()));
  }
  for (const Shape& shape : matrix_shapes(config)) {
    const Weight weight = source.matrix(shape.name, shape.rows, shape.cols);
    if (const Status status = source.status(); !status.ok()) {
      const HeadState state = state_after(status.error());
      return found(state, fmt::format("{}: {}", head_state_name(state), status.error().message));
    }
    if (zeroed(weight)) {
      return found(HeadState::kZeroed,
                   fmt::format("zeroed: all values of {} in {} are zero; get the MTP head again from the "
                               "original model",
                               shape.name, where(model)));
    }
  }
  const Result<std::string> repaired = source.settle_head_norms();
  if (!repaired.ok()) return found(state_after(repaired.error()), "its norms: " + repaired.error().message);
  if (!repaired->empty())
    return found(HeadState::kMended, "raw norms where shifted ones were declared: " + *repaired);
  report.state = HeadState::kReady;
  return report;
}

}  // namespace ft
