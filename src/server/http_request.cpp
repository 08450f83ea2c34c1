#include "server/http_request.h"

#include <algorithm>

#include "base/ascii.h"

namespace ft::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool same_name(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

std::string HttpRequest::query_value(std::string_view name) const {
  for (std::string_view rest = query; !rest.empty();) {
    const std::size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    const std::size_t equals = pair.find('=');
    if (pair.substr(0, equals) == name) {
      return equals == std::string_view::npos ? "" : percent_decoded(pair.substr(equals + 1));
    }
    rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
  }
  return {};
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_name(key, name)) return value;
  }
  return {};
}

api::Dialect HttpRequest::dialect() const {
  const bool anthropic = path.starts_with("/v1/messages") || !header("anthropic-version").empty();
  return anthropic ? api::Dialect::kAnthropic : api::Dialect::kOpenAi;
}

}  // namespace ft::server
