#include "text/hermes_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/json_text.h"
#include "text/tags.h"

namespace ft {

namespace {

constexpr int kMaxCallDepth = 100;

bool is_object(std::string_view text) {
  return is_json(text, kMaxCallDepth) && text[text.find_first_not_of(kTagSpace)] == '{';
}

/// The object at the front of `text`, without what follows it; all of `text` if the object is cut.
std::string_view front_object(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      at += c == '\\' ? 1 : 0;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    depth += c == '{' ? 1 : c == '}' ? -1 : 0;
    if (depth == 0) return text.substr(0, at + 1);
  }
  return text;
}

/// The name, and all text after it from the arguments on.
std::optional<HermesCall> begun_call(std::string_view json) {
  const auto take = [&json](std::string_view word) {
    json.remove_prefix(std::min(json.find_first_not_of(kTagSpace), json.size()));
    if (!json.starts_with(word)) return false;
    json.remove_prefix(word.size());
    return true;
  };
  if (!take("{") || !take("\"name\"") || !take(":") || !take("\"")) return std::nullopt;
  const size_t end = json.find('"');
  if (end == std::string_view::npos) return std::nullopt;
  const auto name = read_json<nlohmann::ordered_json>("\"" + std::string(json.substr(0, end + 1)));
  json.remove_prefix(end + 1);
  if (!name.is_string()) return std::nullopt;
  const bool arguments = take(",") && (take("\"arguments\"") || take("\"parameters\"")) && take(":");
  const bool object = arguments && take("{");
  return HermesCall{name.get<std::string>(), object ? "{" + std::string(json) : std::string()};
}

}  // namespace

std::optional<HermesCall> parse_hermes_call(std::string_view json) {
  if (!is_json(json, kMaxCallDepth)) {
    return std::nullopt;
  }
  // Arguments are passed on as they are written: numbers may have more digits than a double.
  std::optional<HermesCall> written = begun_call(json);
  if (written && written->arguments.rfind('}') != std::string::npos) {
    written->arguments.erase(written->arguments.rfind('}'));
    if (is_object(written->arguments)) return written;
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
  if (!is_object(text)) return std::nullopt;
  return HermesCall{call["name"].get<std::string>(), std::move(text)};
}

std::optional<HermesCall> parse_cut_hermes_call(std::string_view json) {
  std::optional<HermesCall> begun = begun_call(json);
  if (begun) begun->arguments = std::string(front_object(begun->arguments));
  return begun;
}

}  // namespace ft
