#include "api/call_arguments.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "base/json.h"
#include "text/chat_template.h"
#include "text/json_text.h"

namespace ft::api {
namespace {

bool is_nothing(const Json& value) { return value.is_null() || (value.is_array() && value.empty()); }

Json of_text(const std::string& text) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return Json::object();
  Json json = is_json(text, kMaxJsonDepth) ? read_json<Json>(text) : Json(text);
  if (json.is_string() && is_json(json.get<std::string>(), kMaxJsonDepth)) {  // encoded twice
    if (Json inner = read_json<Json>(json.get<std::string>()); inner.is_object()) return inner;
  }
  if (json.is_object()) return json;
  if (is_nothing(json) || json == "") return Json::object();
  return Json{{"arguments", text}};
}

}  // namespace

Result<Json> read_arguments(const Json* given, const std::string& path) {
  if (given == nullptr || is_nothing(*given)) return Json::object();
  if (given->is_object()) return *given;
  if (given->is_string()) return of_text(given->get<std::string>());
  return wrong(path, fmt::format("must be an object or its text, such as \"{{\\\"city\\\": \\\"Oslo\\\"}}\", "
                                 "found {}",
                                 kind_of(*given)));
}

}  // namespace ft::api
