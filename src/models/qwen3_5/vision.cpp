#include "models/qwen3_5/vision.h"

#include <cmath>
#include <fmt/format.h>

#include "format/half.h"

namespace ft::qwen3_5 {
namespace {

constexpr float kEps = 1e-6F;

class Tower {
 public:
  Tower(const Config& config, const VisionConfig& vision, WeightSource& source)
      : config_(config), vision_(vision), source_(source) {}

  void build(Program& p) {
    const int width = vision_.hidden_size, values = vision_.settings.patch_floats();
    const Row in = p.input(values + width);
    const Row patch = p.append(Slice{in, 0, values, {}});
    const Row place = p.append(Slice{in, values, width, {}});
    const Weight kernel = source_.flat_matrix("patch_embed.proj", width, values);
    Row x = p.add(p.bias(p.linear(patch, {kernel})[0], bias("patch_embed.proj", width)), place);
    for (int i = 0; i < vision_.depth; ++i) x = block(p, x, fmt::format("blocks.{}.", i));
    p.capture("patches", norm(p, x, "merger.norm"));
  }

  void build_merger(Program& p) {
    const int joined = vision_.settings.merge * vision_.settings.merge * vision_.hidden_size;
    const Row inner = linear(p, p.input(joined), "merger.linear_fc1", joined);
    p.capture("tokens", linear(p, p.gelu(inner, true), "merger.linear_fc2", config_.hidden_size));
  }

 private:
  Row block(Program& p, Row x, const std::string& prefix) {
    x = p.add(x, linear(p, attend(p, norm(p, x, prefix + "norm1"), prefix), prefix + "attn.proj", x.width));
    const Row inner =
        linear(p, norm(p, x, prefix + "norm2"), prefix + "mlp.linear_fc1", vision_.intermediate_size);
    return p.add(x, linear(p, p.gelu(inner, vision_.exact_gelu), prefix + "mlp.linear_fc2", x.width));
  }

  /// The first half of a head's frequencies is turned by the row of the patch, the second by its column.
  Row attend(Program& p, Row x, const std::string& prefix) {
    const int width = x.width;
    const Row all = linear(p, x, prefix + "attn.qkv", 3 * width);
    Attention attend;
    attend.q = p.append(Slice{all, 0, width, {}});
    attend.k = p.append(Slice{all, width, width, {}});
    attend.v = p.append(Slice{all, 2 * width, width, {}});
    attend.heads = attend.kv_heads = vision_.num_heads;
    attend.head_dim = attend.rotary = width / vision_.num_heads;
    const int each = attend.rotary / 4;
    for (std::uint8_t axis = 1; axis <= 2; ++axis) {
      for (int j = 0; j < each; ++j) {
        attend.inverse_frequencies.push_back(
            static_cast<float>(std::pow(10000.0, -static_cast<double>(j) / each)));
        attend.frequency_axes.push_back(axis);
      }
    }
    attend.eps = kEps;
    attend.scale = 1.0F / std::sqrt(static_cast<float>(attend.head_dim));
    attend.causal = false, attend.transient = true;
    return p.attend(std::move(attend));
  }

  Row linear(Program& p, Row x, const std::string& name, int width) {
    return p.bias(p.linear(x, {source_.matrix(name, width, x.width)})[0], bias(name, width));
  }
  Row norm(Program& p, Row x, const std::string& name) {
    return p.layer_norm(x, source_.vector(name, x.width), bias(name, x.width), kEps);
  }
  Weight bias(const std::string& name, int width) { return source_.vector(name + ".bias", width); }

  const Config& config_;
  const VisionConfig& vision_;
  WeightSource& source_;
};

Result<std::vector<float>> decode(const Weight& table) {
  const auto count = static_cast<std::size_t>(table.rows * table.cols);
  std::vector<float> values(count);
  const auto bytes = static_cast<std::size_t>(element_bytes(table.format));
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = table.data + i * bytes;
    switch (table.format) {
      case Format::kF32:
        values[i] = format::load_f32(at);
        break;
      case Format::kF16:
        values[i] = format::f16_to_float(format::load_u16(at));
        break;
      case Format::kBf16:
        values[i] = format::bf16_to_float(format::load_u16(at));
        break;
      default:
        return Error{Code::kUnsupported,
                     table.name +
                         ": the learned positions of the vision tower are quantised; use a "
                         "version of the model that keeps them in bf16"};
    }
  }
  return values;
}

}  // namespace

Status build_vision(Model& model, const Config& config, WeightSource& source) {
  if (!config.vision) {
    model.vision_problem = "this model reads text only: its config.json has no vision_config";
    return {};
  }
  if (!source.has("patch_embed.proj")) {
    model.vision_problem =
        "this model reads text only: its files lack the vision tower (model.visual.*), which its config.json "
        "describes; use a version of the model with it";
    return {};
  }
  const VisionConfig& vision = *config.vision;
  VisionModel made;
  made.settings = vision.settings;
  made.width = vision.hidden_size;
  made.position_side = vision.position_side;
  made.image_token = vision.image_token;
  if (const format::TensorView* kernel = source.index().find("patch_embed.proj.weight");
      kernel->shape.size() == 5 && kernel->shape.back() == 3 && kernel->shape[1] != 3) {
    made.settings.channels_last = true;
  }
  Tower tower(config, vision, source);
  tower.build(made.tower);
  tower.build_merger(made.merger);
  const int places = vision.position_side * vision.position_side;
  const Weight table = source.matrix("pos_embed", places, vision.hidden_size);
  FT_TRY(source.status());
  FT_ASSIGN(made.position_table, decode(table));
  model.vision = std::move(made);
  return {};
}

}  // namespace ft::qwen3_5
