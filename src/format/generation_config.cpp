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

}  // namespace ft::format
