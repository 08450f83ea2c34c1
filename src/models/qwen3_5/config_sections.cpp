#include "models/qwen3_5/config_sections.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>

#include "format/key_reader.h"
#include "format/tensor.h"

namespace ft::qwen3_5 {
namespace {

using format::in_quotes;
using format::KeyReader;
using nlohmann::json;

void read_mrope(KeyReader& keys, RopeConfig& rope) {
  rope.mrope_interleaved = keys.flag("mrope_interleaved", true);
  const json* section = keys.find("mrope_section");
  const int half = rope.rotary_dim / 2;
  if (section == nullptr) {
    // The default is for 64 rotated dimensions; no section is known for another number.
    if (half != 32) rope.mrope_section.clear();
    return;
  }
  bool good = section->is_array() && section->size() == 3;
  std::vector<int> sizes;
  for (std::size_t i = 0; good && i < section->size(); ++i) {  // in place: a copy's destructor would allocate
    const json& size = (*section)[i];
    good = size.is_number_unsigned() && size.get<std::uint64_t>() <= static_cast<std::uint64_t>(half);
    sizes.push_back(good ? size.get<int>() : 0);
  }
  if (!good || std::accumulate(sizes.begin(), sizes.end(), 0) != half) {
    keys.fail("mrope_section", "3 sizes whose sum is " + std::to_string(half), section);
    return;
  }
  rope.mrope_section = std::move(sizes);
}

/// "post_norm" or "pre_norm" at any of the keys; the result is true for pre_norm.
bool is_pre_norm(KeyReader& keys, const char* key, bool otherwise) {
  const std::string variant = keys.text(key, "");
  if (variant.empty()) return otherwise;
  if (variant != "post_norm" && variant != "pre_norm") {
    keys.fail(Code::kUnsupported, keys.where() + "." + key + ": expected post_norm or pre_norm, found " +
                                      in_quotes(variant) + "; use a head with one of these contracts");
  }
  return variant == "pre_norm";
}

void read_contract(KeyReader& contract, MtpContract& mtp) {
  mtp.base_hidden_pre_norm = is_pre_norm(contract, "base_hidden_variant", mtp.base_hidden_pre_norm);
  mtp.hidden_pre_norm = is_pre_norm(contract, "hidden_variant", mtp.hidden_pre_norm);
  mtp.hidden_pre_norm = is_pre_norm(contract, "mtp_hidden_variant", mtp.hidden_pre_norm);
  mtp.concat_order = contract.text("concat_order", mtp.concat_order);
  if (mtp.concat_order != "embedding_hidden" && mtp.concat_order != "hidden_embedding") {
    contract.fail(Code::kUnsupported,
                  contract.where() + ".concat_order: expected embedding_hidden or hidden_embedding, found " +
                      in_quotes(mtp.concat_order) + "; use a head with one of these contracts");
  }
  if (mtp.norm_encoding.empty()) mtp.norm_encoding = contract.text("norm_encoding", "");
}

}  // namespace

Status read_rope(KeyReader& text, Config& config) {
  RopeConfig& rope = config.rope;
  static_cast<blocks::Rope&>(rope) =
      blocks::read_rope(text, {config.next ? 1e4 : 1e7, 0.25, config.head_dim, config.max_positions});
  FT_TRY(text.status());
  const char* name = text.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  KeyReader keys(text.object(name), text.where() + (text.where().ends_with(".json") ? ": " : ".") + name);
  read_mrope(keys, rope);
  return keys.status();
}

namespace {

void read_tower(KeyReader& keys, const Config& config, VisionConfig& vision) {
  vision.depth = keys.whole("depth", 27, 1, 256);
  vision.hidden_size = keys.whole("hidden_size", 1152, 4, 1 << 16);
  vision.intermediate_size = keys.whole("intermediate_size", 4304, 1, 1 << 18);
  vision.num_heads = keys.whole("num_heads", 16, 1, 1024);
  vision.settings.patch = keys.whole("patch_size", 16, 1, 64);
  vision.settings.temporal = keys.whole("temporal_patch_size", 2, 1, 8);
  vision.settings.merge = keys.whole("spatial_merge_size", 2, 1, 8);
  const int positions = keys.whole("num_position_embeddings", 2304, 1, 1 << 16);
  vision.position_side = static_cast<int>(std::lround(std::sqrt(static_cast<double>(positions))));
  if (vision.position_side * vision.position_side != positions)
    keys.fail("num_position_embeddings", "a square number", keys.find("num_position_embeddings"));
  if (vision.hidden_size % vision.num_heads != 0 || vision.hidden_size / vision.num_heads % 4 != 0)
    keys.fail("num_heads", "heads whose size is a multiple of 4", keys.find("num_heads"));
  if (keys.whole("in_channels", 3, 1, 64) != 3) keys.fail("in_channels", "3", keys.find("in_channels"));
  if (keys.whole("out_hidden_size", config.hidden_size, 1, 1 << 20) != config.hidden_size) {
    keys.fail("out_hidden_size", "the text model's hidden_size " + std::to_string(config.hidden_size),
              keys.find("out_hidden_size"));
  }
  const std::string act = keys.text("hidden_act", "gelu_pytorch_tanh");
  vision.exact_gelu = act == "gelu";
  if (!vision.exact_gelu && act != "gelu_pytorch_tanh") {
    keys.fail(Code::kUnsupported, keys.where() + ".hidden_act: expected gelu_pytorch_tanh or gelu, found " +
                                      in_quotes(act) + "; use a published model of the family");
  }
  const json* stacked = keys.find("deepstack_visual_indexes");
  if (stacked != nullptr && !(stacked->is_array() && stacked->empty())) {
    keys.fail(Code::kUnsupported,
              keys.where() +
                  ".deepstack_visual_indexes: expected an empty list, found layers; use a "
                  "model of this family");
  }
}

void read_three(KeyReader& keys, const char* key, std::array<float, 3>& values, double least) {
  const json* list = keys.find(key);
  if (list == nullptr) return;
  bool good = list->is_array() && list->size() == 3;
  for (std::size_t i = 0; good && i < 3; ++i) {
    good = (*list)[i].is_number() && (*list)[i].get<double>() >= least && (*list)[i].get<double>() <= 255;
    if (good) values[i] = (*list)[i].get<float>();
  }
  if (!good) keys.fail(key, "3 numbers", list);
}

}  // namespace

Status read_vision(KeyReader& top, KeyReader& pictures, Config& config) {
  if (top.find("vision_config") == nullptr) return top.status();
  KeyReader keys(top.object("vision_config"), top.where() + ": vision_config");
  VisionConfig vision;
  vision.image_token = top.whole("image_token_id", 248056, 0, config.vocab_size - 1);
  FT_TRY(top.status());
  read_tower(keys, config, vision);
  constexpr std::int64_t kMax = std::int64_t{1} << 32;
  images::Settings& settings = vision.settings;
  KeyReader size(pictures.object("size"), pictures.where() + ": size");
  settings.min_pixels =
      size.whole64("shortest_edge", pictures.whole64("min_pixels", settings.min_pixels, 1, kMax), 1, kMax);
  settings.max_pixels =
      size.whole64("longest_edge", pictures.whole64("max_pixels", settings.max_pixels, 1, kMax), 1, kMax);
  if (settings.min_pixels > settings.max_pixels)
    size.fail("shortest_edge", "at most longest_edge", size.find("shortest_edge"));
  read_three(pictures, "image_mean", settings.mean, 0);
  read_three(pictures, "image_std", settings.deviation, 1e-6);
  FT_TRY(keys.status());
  FT_TRY(size.status());
  FT_TRY(pictures.status());
  config.vision = vision;
  return {};
}

Status read_mtp_contract(KeyReader& top, KeyReader& text, KeyReader& runtime, MtpContract& mtp) {
  mtp.layers = text.whole("mtp_num_hidden_layers", 1, 0, 16);
  mtp.dedicated_embeddings = text.flag("mtp_use_dedicated_embeddings", false);
  FT_TRY(text.status());

  // The most specific place is first: the encoding of a later place does not overwrite one that is set.
  mtp.norm_encoding = top.text("mtplx_mtp_norm_encoding", "");
  KeyReader quantised(top.object("mtplx_mtp_quantization"), top.where() + ": mtplx_mtp_quantization");
  if (mtp.norm_encoding.empty()) mtp.norm_encoding = quantised.text("norm_encoding", "");
  KeyReader in_runtime(runtime.object("mtp_contract"), runtime.where() + ": mtp_contract");
  read_contract(in_runtime, mtp);
  KeyReader contract(top.object("mtplx_mtp_contract"), top.where() + ": mtplx_mtp_contract");
  read_contract(contract, mtp);
  if (mtp.norm_encoding.empty()) mtp.norm_encoding = runtime.text("mtp_norm_layout", "");
  mtp.depth_max = runtime.optional_whole("mtp_depth_max", 0, 64);
  mtp.depth_default = runtime.optional_whole("mtp_depth_default", 0, 64);

  FT_TRY(top.status());
  FT_TRY(runtime.status());
  FT_TRY(quantised.status());
  FT_TRY(in_runtime.status());
  return contract.status();
}

}  // namespace ft::qwen3_5
