#include "base/json.h"

#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/ordered_json.h"

namespace ft {

template <class Json>
Json read_json(std::string_view text) {
  if constexpr (std::is_same_v<Json, nlohmann::ordered_json>) {
    return read_ordered_json(text).value;
  } else {
    return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  }
}
template nlohmann::json read_json<nlohmann::json>(std::string_view text);
template nlohmann::ordered_json read_json<nlohmann::ordered_json>(std::string_view text);

std::string write_json(const nlohmann::json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}
std::string write_json(const nlohmann::ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace ft
