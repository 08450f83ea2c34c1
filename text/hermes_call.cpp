#include "text/hermes_call.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/json_text.h"
#include "text/tags.h"

namespace ft {

namespace {

constexpr int kMaxCallDepth = 100;

}  // namespace

std::optional<HermesCall> parse_hermes_call(std::string_view json) {
  if (!is_json(json, kMaxCallDepth)) {
    return std::nullopt;
  }
  const auto call = read_json<nlohmann::ordered_json>(json);
  if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) {
    return std::nullopt;
  }
  const auto arguments =
      call.find("arguments") != call.end() ? call.find("arguments") : call.find("parameters");
  std::string text = arguments == call.end() ? "{}" : arguments->dump();
  if (arguments != call.end() && arguments->is_string()) {
    text = arguments->get<std::string>();
  }
  if (!is_json(text, kMaxCallDepth) || text[text.find_first_not_of(kTagSpace)] != '{') {
    return std::nullopt;
  }
  return HermesCall{call["name"].get<std::string>(), std::move(text)};
}

}  // namespace ft
