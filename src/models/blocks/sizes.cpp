#include "models/blocks/sizes.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "format/generation_config.h"
#include "format/tensor.h"
#include "models/blocks/limits.h"
#include "models/sampling_defaults.h"

namespace ft::blocks {

using format::KeyReader;

void refuse(KeyReader& keys, const char* key, const std::string& expected, const std::string& found) {
  const bool top_level = keys.where().ends_with(".json");
  keys.fail(Code::kUnsupported, keys.where() + (top_level ? ": " : ".") + key + ": expected " + expected +
                                    ", found " + found + "; use a published model of the family");
}

Sizes read_sizes(KeyReader& text, const Sizes& defaults) {
  Sizes s;
  s.vocabulary = text.whole("vocab_size", defaults.vocabulary, 1, format::kMaxVocabulary);
  s.hidden = text.whole("hidden_size", defaults.hidden, 1, kMaxWidth);
  s.intermediate = text.whole("intermediate_size", defaults.intermediate, 1, kMaxWidth);
  s.layers = text.whole("num_hidden_layers", defaults.layers, 1, kMaxLayers);
  s.heads = text.whole("num_attention_heads", defaults.heads, 1, kMaxHeads);
  const int kv_heads = defaults.kv_heads == 0 ? s.heads : defaults.kv_heads;
  s.kv_heads = text.whole("num_key_value_heads", kv_heads, 1, kMaxHeads);
  const int head_dim = defaults.head_dim == 0 ? s.hidden / s.heads : defaults.head_dim;
  s.head_dim = text.whole("head_dim", head_dim, 2, kMaxHeadDim);
  s.eps = text.real("rms_norm_eps", defaults.eps, 0, 1);
  s.positions = text.whole64("max_position_embeddings", defaults.positions, 1, kMaxPositions);
  if (s.heads % s.kv_heads != 0) {
    text.fail("num_key_value_heads", "a divisor of num_attention_heads " + std::to_string(s.heads),
              text.find("num_key_value_heads"));
  }
  if (text.find("head_dim") == nullptr && defaults.head_dim == 0 && s.hidden % s.heads != 0) {
    text.fail("num_attention_heads",
              "a divisor of hidden_size " + std::to_string(s.hidden) + ", because head_dim is absent",
              text.find("num_attention_heads"));
  }
  if (s.head_dim % 2 != 0 || s.head_dim < 2) text.fail("head_dim", "an even number", text.find("head_dim"));
  if (const std::string act = text.text("hidden_act", "silu"); act != "silu")
    refuse(text, "hidden_act", "silu", format::in_quotes(act));
  return s;
}

Result<Ends> read_ends(const format::ConfigFiles& files, KeyReader& top, KeyReader& text, bool nested,
                       int vocabulary, FamilyConfig& config) {
  Ends ends;
  KeyReader generation(*files.generation, files.generation_path());
  format::add_end_ids(generation, vocabulary, ends.eos_ids);
  ends.sampling = read_sampling_defaults(generation);
  FT_TRY(generation.status());
  format::add_end_ids(top, vocabulary, ends.eos_ids);
  if (nested) format::add_end_ids(text, vocabulary, ends.eos_ids);
  const std::optional<bool> tied = top.optional_flag("tie_word_embeddings");
  config.tied = tied ? tied : text.optional_flag("tie_word_embeddings");
  FT_TRY(top.status());
  FT_TRY(text.status());
  return ends;
}

}  // namespace ft::blocks
