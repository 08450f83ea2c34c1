#include "convert/names.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "format/tensor.h"

namespace ft::convert {
namespace {

constexpr std::string_view kTowers[] = {"visual.",       "vision_tower.",   "audio_tower.",
                                        "embed_vision.", "embed_audio.",    "multi_modal_projector.",
                                        "vision_model.", "vision_embedder."};
constexpr std::string_view kSmall[] = {
    ".in_proj_a.weight",          ".in_proj_b.weight",   ".in_proj_ba.weight", ".mlp.gate.weight",
    ".shared_expert_gate.weight", ".router.proj.weight", ".mlp.router.weight"};
constexpr std::string_view kEmbeddings[] = {"embed_tokens.weight", "embed_tokens_per_layer.weight",
                                            "lm_head.weight"};

template <class List>
bool ends_with_any(std::string_view name, const List& list) {
  return std::ranges::any_of(list, [&](std::string_view end) { return name.ends_with(end); });
}

bool begins_a_tower(std::string_view name) {
  return std::ranges::any_of(kTowers, [&](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace

Result<const ConversionNames*> find_names(const std::string& model_type, const std::string& origin) {
  const Family* family = find_family(model_type);
  if (family != nullptr) return &family->conversion;
  std::string types;
  for (const Family* one : families()) {
    for (const std::string_view type : one->model_types)
      types += (types.empty() ? "" : ", ") + std::string(type);
  }
  return Error{Code::kUnsupported, origin + ": model_type: expected one of " + types + ", found " +
                                       format::in_quotes(model_type) +
                                       "; only models of these families can be converted"};
}

std::string canonical_name(std::string_view stored) {
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view prefix : {"model.", "language_model."}) {
      if (!stored.starts_with(prefix)) continue;
      stored.remove_prefix(prefix.size());
      stripped = true;
    }
  }
  return std::string(stored);
}

std::string mlx_name(const ConversionNames& names, std::string_view canonical) {
  if (canonical.starts_with("mtp.")) return std::string(canonical);
  const std::string outer(names.outer);
  return outer + (canonical.starts_with("lm_head.") ? "" : "model.") + std::string(canonical);
}

TensorKind kind_of(const ConversionNames& names, std::string_view canonical, std::size_t dimensions) {
  if (begins_a_tower(canonical)) return TensorKind::kVision;
  if (canonical.starts_with("mtp.")) return TensorKind::kMtp;
  if (canonical.ends_with(".conv1d.weight")) return TensorKind::kConv;
  if (!names.one_less.empty() && (canonical == "norm.weight" || ends_with_any(canonical, names.one_less)))
    return TensorKind::kShifted;
  ExpertPart part;
  if (read_expert_part(names, canonical, part)) return TensorKind::kExperts;
  if (dimensions < 2 || !canonical.ends_with(".weight")) return TensorKind::kAsStored;
  if (names.plain_router && canonical.ends_with(".mlp.gate.weight")) return TensorKind::kAsStored;
  if (ends_with_any(canonical, kSmall)) return TensorKind::kSmall;
  return ends_with_any(canonical, kEmbeddings) ? TensorKind::kEmbedding : TensorKind::kLinear;
}

bool read_expert_part(const ConversionNames& names, std::string_view canonical, ExpertPart& part) {
  constexpr std::string_view kExperts = "experts.";
  const std::size_t at = canonical.find(".experts.");
  if (at == std::string_view::npos) return false;
  std::string_view rest = canonical.substr(at + 1 + kExperts.size());
  part.index = -1;
  if (!rest.empty() && rest.front() >= '0' && rest.front() <= '9') {
    const auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), part.index);
    if (failed != std::errc() || end == rest.data() + rest.size() || *end != '.') return false;
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()) + 1);
  }
  if (rest.ends_with(".weight")) rest.remove_suffix(std::string_view(".weight").size());
  constexpr std::string_view kProjections[] = {"gate_up_proj", "down_proj", "gate_proj", "up_proj"};
  if (std::ranges::find(kProjections, rest) == std::end(kProjections)) return false;
  part.projection = rest;
  part.before = canonical.substr(0, names.inside_experts ? at + 1 + kExperts.size() : at + 1);
  return true;
}

std::string expert_name(const ConversionNames& names, const ExpertPart& part, std::string_view projection) {
  return part.before + std::string(names.experts) + std::string(projection) + ".weight";
}

}  // namespace ft::convert
