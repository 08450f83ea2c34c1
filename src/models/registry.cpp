// The families that this version runs. A new one is one folder and one row.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "format/key_reader.h"
#include "format/out_of_memory.h"
#include "models/family.h"
#include "models/gemma4/family.h"
#include "models/glm4_moe/family.h"
#include "models/gpt_oss/family.h"
#include "models/llama/family.h"
#include "models/not_implemented.h"
#include "models/qwen3_5/family.h"

namespace ft {
namespace {

/// " (architecture 'Gemma4ForConditionalGeneration')" if config.json names one.
std::string architecture_text(const nlohmann::json& config) {
  const auto list = config.find("architectures");
  if (list == config.end() || !list->is_array() || list->empty()) return "";
  const auto* name = list->front().get_ptr<const std::string*>();
  return name == nullptr ? "" : fmt::format(" (architecture {})", format::in_quotes(*name));
}

/// A part of a model that no instruction computes, and the key of config.json that tells of it.
struct Lacking {
  const char* key;
  const char* part;
};
constexpr Lacking kLacking[] = {
    {"kv_lora_rank", "latent attention (MLA)"}, {"topk_group", "routing by groups of experts"},
    {"index_topk", "sparse attention"},         {"indexer_budget", "sparse attention"},
    {"hc_count", "hyper-connections"},          {"ngram_size", "a table of n-grams"},
};

/// The parts that `config` names and no instruction computes, with a comma between them.
std::string lacking_parts(const nlohmann::json& config) {
  const auto text = config.find("text_config");
  const auto has = [&](const nlohmann::json& keys, const char* key) {
    const auto found = keys.is_object() ? keys.find(key) : keys.end();
    return found != keys.end() && found->is_number() && found->get<double>() > 1;
  };
  std::string parts;
  for (const auto& [key, part] : kLacking) {
    if (has(config, key) || (text != config.end() && has(*text, key)))
      parts += (parts.empty() ? "" : ", ") + std::string(part);
  }
  return parts;
}

Error unsupported(const format::ConfigFiles& files, const std::string& model_type) {
  std::string supported;
  for (const Family* family : families()) {
    for (const std::string_view type : family->model_types)
      supported += (supported.empty() ? "" : ", ") + std::string(type);
  }
  return {Code::kUnsupported,
          fmt::format("{}: model_type: expected one of {}, found {}{}{}; use a model of a supported family",
                      files.path, supported, model_type.empty() ? "nothing" : format::in_quotes(model_type),
                      architecture_text(*files.config), not_implemented(lacking_parts(*files.config)))};
}

Result<FamilyMatch> match(const format::ConfigFiles& files) {
  format::KeyReader top(*files.config, files.path);
  const std::string model_type = top.text("model_type", "");
  FT_TRY(top.status());
  const Family* family = find_family(model_type);
  if (family == nullptr) return unsupported(files, model_type);
  FT_ASSIGN(std::unique_ptr<FamilyConfig> config, family->read_config(files, model_type));
  return FamilyMatch{family, std::move(config)};
}

}  // namespace

std::span<const Family* const> families() {
  static constexpr std::array<const Family*, 6> kFamilies = {&qwen3_5::kFamily,  &gemma4::kFamily,
                                                             &llama::kFamily,    &qwen3_5::kNextFamily,
                                                             &glm4_moe::kFamily, &gpt_oss::kFamily};
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  for (const Family* family : families()) {
    if (std::ranges::find(family->model_types, model_type) != family->model_types.end()) return family;
  }
  return nullptr;
}

std::span<const std::string_view> chat_formats_of(std::string_view name) {
  const auto all = families();
  const auto found = std::ranges::find(all, name, &Family::name);
  return found == all.end() ? std::span<const std::string_view>() : (*found)->chat_formats;
}

Result<FamilyMatch> read_config(const format::ConfigFiles& files) {
  return format::with_memory_guard("read it", files.path, [&] { return match(files); });
}

}  // namespace ft
