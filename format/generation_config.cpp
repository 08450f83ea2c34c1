#include "format/generation_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "format/key_reader.h"

namespace ft::format {

using nlohmann::json;

void add_end_ids(KeyReader& level, int vocabulary, std::vector<int>& ids) {
  const json* value = level.find("eos_token_id");
  if (value == nullptr) return;
  const std::size_t count = value->is_array() ? value->size() : 1;
  for (std::size_t i = 0; i < count; ++i) {
    const json& id = value->is_array() ? (*value)[i] : *value;
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(vocabulary)) {
      level.fail("eos_token_id", "token ids from 0 to vocab_size " + std::to_string(vocabulary) + " - 1",
                 value);
      return;
    }
    const int token = id.get<int>();
    if (std::count(ids.begin(), ids.end(), token) == 0) ids.push_back(token);
  }
}

SamplingDefaults read_sampling_defaults(KeyReader& generation) {
  SamplingDefaults s;
  s.do_sample = generation.optional_flag("do_sample");
  s.temperature = generation.optional_real("temperature", 0.0, 100.0);
  s.top_k = generation.optional_whole("top_k", -1, kMaxVocabulary);
  if (s.top_k && *s.top_k < 0) s.top_k = 0;  // both mean no limit
  s.top_p = generation.optional_real("top_p", 0.0, 1.0);
  s.min_p = generation.optional_real("min_p", 0.0, 1.0);
  s.repetition_penalty = generation.optional_real("repetition_penalty", 1e-3, 100.0);
  return s;
}

}  // namespace ft::format
