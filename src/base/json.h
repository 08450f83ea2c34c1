// JSON from and to text. Both are compiled once, in json.cpp: a source that calls nlohmann's own parse() and
// dump() takes three seconds longer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ft {

/// `Json`: nlohmann::json or nlohmann::ordered_json. is_discarded() if the text is not JSON.
template <class Json>
Json read_json(std::string_view text);
extern template nlohmann::json read_json<nlohmann::json>(std::string_view text);
extern template nlohmann::ordered_json read_json<nlohmann::ordered_json>(std::string_view text);

/// `indent` < 0: one line. Bytes that are not UTF-8 become U+FFFD.
std::string write_json(const nlohmann::json& value, int indent = -1);
std::string write_json(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace ft
