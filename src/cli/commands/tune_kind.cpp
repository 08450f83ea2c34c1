#include "cli/commands/tune_kind.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "format/config_files.h"
#include "format/gguf/files.h"
#include "tune/captured_text.h"
#include "tune/target_file.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kTuneKinds = {"eagle3", "mtp", "dflash2"};
constexpr int kMaxDraftVocabulary = 32000;
constexpr int kUsualRatio = 3;       // of the MLP to the width
constexpr int kBlockHeadSize = 128;  // of a block drafter, at most
constexpr int kDeepTarget = 24;      // with more layers, or as many, a block drafter has five and reads five

/// The attention of the target's full layers, which its MTP head repeats.
const Attention* full_attention(const Program& target) {
  for (const Instruction& instruction : target.instructions()) {
    const auto* attend = std::get_if<Attention>(&instruction);
    if (attend != nullptr && attend->sliding_window == 0) return attend;
  }
  return nullptr;
}

Status check_mtp(const Model& model) {
  const auto refused = [&](const std::string& why) {
    return Error{Code::kUnsupported, fmt::format("--kind mtp: {}; use --kind eagle3", why)};
  };
  const std::string& family = model.facts.family;
  if (family != "qwen3_5" && family != "qwen3_next" && family != "glm4_moe")
    return refused(fmt::format("models of the family {} have no MTP head", family));
  if (model.facts.experts > 0) return refused("the MTP head of a mixture of experts cannot be trained yet");
  if (format::is_gguf_file(model.directory)) return refused("a GGUF file takes no MTP head beside it");
  const Attention* attend = full_attention(model.target);
  const bool plain = attend != nullptr && !attend->q_norm.empty() && attend->sinks.empty() &&
                     attend->gains.empty() && attend->rotary_scale == 1;
  if (!plain) return refused("the attention of this model has parts that the training lacks");
  if (model.mtp && !tune::head_is_usual(*model.mtp))
    return refused("the MTP head that the model has differs from the published design");
  return {};
}

/// For the configuration of the model, as `graft` writes it.
Json head_keys(const Model& model) {
  const Json layers = {{"mtp_num_hidden_layers", 1}};
  const Result<format::ConfigFiles> files = format::ConfigFiles::read(model.directory);
  const bool nested = files.ok() && files->config->contains("text_config");
  Json keys = nested ? Json{{"text_config", layers}} : layers;
  keys["mtplx_mtp_norm_encoding"] = "final";
  keys["mtplx_mtp_contract"] = {{"base_hidden_variant", "post_norm"},
                                {"hidden_variant", nullptr},
                                {"mtp_hidden_variant", "post_norm"},
                                {"concat_order", "embedding_hidden"},
                                {"mtp_position_mode", "cache"}};
  return keys;
}

int mlp_of(const ModelFacts& facts) {
  const bool dense = facts.intermediate > 0 && facts.experts == 0;
  return dense ? facts.intermediate : kUsualRatio * facts.width;
}

Json block_sizes(const ModelFacts& facts) {
  constexpr int kGroup = 16, kSmallestRank = 16, kLargestRank = 256, kRankUnit = 16, kCandidates = 16;
  constexpr int kRowsOfBlock = 8;
  constexpr double kTheta = 1e7;
  const int size = std::min(facts.head_dim, kBlockHeadSize);
  const int rank = std::clamp(facts.width / 4 / kRankUnit * kRankUnit, kSmallestRank, kLargestRank);
  return Json{{"heads", facts.heads * (facts.head_dim / size)},
              {"kv_heads", facts.kv_heads},
              {"head_dim", size},
              {"intermediate", mlp_of(facts)},
              {"rope_theta", kTheta},
              {"eps", 1e-6},
              {"target_layers", facts.layers},
              {"drafter_layers", facts.layers < kDeepTarget ? 3 : 5},
              {"block", kRowsOfBlock},
              {"group", facts.width % kGroup == 0 ? kGroup : 1},
              {"rank", rank},
              {"candidates", std::min(kCandidates, facts.vocabulary)}};
}

}  // namespace

Result<TuneKind> TuneKind::parse(std::string_view name) {
  const auto found = std::ranges::find(kTuneKinds, name);
  if (found != kTuneKinds.end()) return TuneKind(*found);
  return Error{Code::kInvalid, fmt::format("expected eagle3, mtp or dflash2, found '{}'", name)};
}

std::string_view TuneKind::words() const {
  if (is_head()) return "An MTP head";
  return is_block() ? "A DFlash2 drafter" : "An EAGLE-3 drafter";
}

Status TuneKind::check(const Model& model) const {
  if (model.facts.width != static_cast<int>(model.embedding.cols)) {
    return Error{Code::kUnsupported,
                 fmt::format("the embedding of {} has {} columns and its hidden rows {}; such a model cannot "
                             "be tuned yet",
                             model.name, model.embedding.cols, model.facts.width)};
  }
  return is_head() ? check_mtp(model) : Status();
}

std::vector<int> TuneKind::layers(const Model& model) const {
  if (is_head()) return {};
  const int layers = model.facts.layers;
  return is_block() ? tune::layers_of_block(layers, layers < kDeepTarget ? 3 : 5)
                    : tune::layers_to_capture(layers);
}

int TuneKind::draft_vocabulary(int vocabulary) const {
  // EAGLE-3: a third, but half of a small one: more of it makes drafts slower and seldom better.
  constexpr int kSmall = 16384;
  if (is_head() || is_block()) return std::min(vocabulary, kMaxDraftVocabulary);
  return vocabulary <= kSmall ? (vocabulary + 1) / 2 : std::min(vocabulary / 3, kMaxDraftVocabulary);
}

Json TuneKind::sizes(const Model& model) const {
  const ModelFacts& facts = model.facts;
  if (is_block()) return block_sizes(facts);
  Json sizes{{"heads", facts.heads},
             {"kv_heads", facts.kv_heads},
             {"head_dim", facts.head_dim},
             {"intermediate", mlp_of(facts)}};
  if (!is_head()) return sizes;
  const Attention& attend = *full_attention(model.target);
  sizes["eps"] = attend.eps, sizes["gated"] = attend.gated;
  sizes["frequencies"] = attend.inverse_frequencies;
  sizes["config"] = head_keys(model);
  return sizes;
}

std::int64_t TuneKind::weights(const Model& model, int width, int draft_vocabulary) const {
  const ModelFacts& facts = model.facts;
  const std::int64_t hidden = facts.width, heads = std::int64_t{facts.heads} * facts.head_dim;
  const std::int64_t mlp = 3 * hidden * mlp_of(facts);
  if (is_head()) return 2 * hidden * hidden + 5 * heads * hidden + mlp;
  if (!is_block()) return hidden * (width + draft_vocabulary + 6 * heads) + mlp;
  const Json sizes = block_sizes(facts);
  const auto rank = sizes["rank"].get<std::int64_t>(), layers = sizes["drafter_layers"].get<std::int64_t>();
  return hidden * width + 2 * rank * facts.vocabulary + layers * (4 * heads * hidden + mlp);
}

}  // namespace ft::cli
