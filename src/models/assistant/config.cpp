#include "models/assistant/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "format/generation_config.h"
#include "format/key_reader.h"

namespace ft::assistant {
namespace {

using format::in_quotes;
using format::KeyReader;
using nlohmann::json;

constexpr int kMaxWidth = 1 << 17;

/// As the config of a Gemma whose layers all share keys and values and have none themselves.
Result<gemma4::Config> read_text(const format::ConfigFiles& files) {
  json root = *files.config;
  const auto text = root.find("text_config");
  if (text == root.end() || !text->is_object())
    return Error{Code::kInvalid,
                 files.path + ": text_config: expected an object, found none; download the file again"};
  (*text)["num_kv_shared_layers"] = 0;
  if (!text->contains("hidden_size_per_layer_input")) (*text)["hidden_size_per_layer_input"] = 0;
  const auto unused = text->find("vocab_size_per_layer_input");
  if (unused != text->end() && *unused == json(0)) text->erase(unused);
  FT_ASSIGN(const format::ConfigFiles alone,
            format::ConfigFiles::parse(write_json(root), "", "", files.path));
  return gemma4::Config::read(alone, "gemma4");
}

void check_supported(KeyReader& top, const gemma4::Config& text) {
  const auto refuse = [&](const std::string& what) {
    top.fail(
        Code::kUnsupported,
        fmt::format("{}: {} is not supported; use an assistant that Google published", top.where(), what));
  };
  if (text.per_layer_width > 0) refuse("text_config.hidden_size_per_layer_input above 0");
  if (text.experts > 0) refuse("text_config.enable_moe_block");
  KeyReader own(top.object("text_config"), top.where() + ": text_config");
  if (own.flag("use_double_wide_mlp", false)) refuse("text_config.use_double_wide_mlp");
}

void read_centroids(KeyReader& top, Config& config) {
  if (!top.flag("use_ordered_embeddings", false)) return;
  config.centroids = top.whole("num_centroids", 2048, 1, kMaxExperts);
  config.chosen = top.whole("centroid_intermediate_top_k", 32, 1, config.centroids);
  if (config.text.vocab_size % config.centroids != 0)
    top.fail("num_centroids", fmt::format("a divisor of vocab_size {}", config.text.vocab_size),
             top.find("num_centroids"));
}

void check_target(KeyReader& top, const Config& config, const ModelFacts& target) {
  const auto differs = [&](const char* key, int own, int of_target) {
    if (own == of_target) return;
    top.fail(Code::kInvalid,
             fmt::format("{}: {} is {}, but the target's is {}; use the assistant of this target",
                         top.where(), key, own, of_target));
  };
  if (target.family != "gemma4")
    top.fail(Code::kInvalid,
             fmt::format("{}: it is an assistant of a Gemma 4, and the target is not one; use a "
                         "drafter of this target",
                         top.where()));
  differs("backbone_hidden_size", config.backbone, target.width);
  differs("vocab_size", config.text.vocab_size, target.vocabulary);
}

}  // namespace

Result<Config> Config::read(const format::ConfigFiles& files, const ModelFacts& target) {
  KeyReader top(*files.config, files.path);
  const std::string type = top.text("model_type", "");
  if (type != "gemma4_assistant") {
    return Error{Code::kUnsupported,
                 fmt::format("{}: model_type: expected 'gemma4_assistant', found {}; use an "
                             "assistant of a Gemma 4",
                             files.path, in_quotes(type))};
  }
  Config config;
  FT_ASSIGN(config.text, read_text(files));
  check_supported(top, config.text);
  config.backbone = top.whole("backbone_hidden_size", 0, 1, kMaxWidth);
  read_centroids(top, config);
  const std::string position = top.text("query_position", "next");
  if (position != "next" && position != "last")
    top.fail("query_position", "'next' or 'last'", top.find("query_position"));
  config.turns_by_last_row = position == "last";
  check_target(top, config, target);
  FT_TRY(top.status());
  config.quantisation = config.text.quantisation;
  return config;
}

}  // namespace ft::assistant
