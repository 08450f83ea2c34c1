#include "server/routes.h"

#include <array>

namespace ft::server {
namespace {

constexpr std::string_view kRead = "GET, HEAD", kReadAndDelete = "GET, HEAD, DELETE", kPost = "POST";
constexpr std::string_view kId = "{id}";

/// Exact paths precede the patterns that would match them too.
constexpr std::array<Route, 20> kRoutes{{
    {"/", kRead},
    {"/health", kRead},
    {"/metrics", kRead},
    {"/props", kRead},
    {"/v1/models", kRead},
    {"/v1/cache", kReadAndDelete},
    {"/v1/chat/completions", kPost},
    {"/v1/completions", kPost},
    {"/v1/responses", kPost},
    {"/v1/messages", kPost},
    {"/v1/responses/input_tokens", kPost},
    {"/v1/responses/compact", kPost},
    {"/v1/tokenize", kPost},
    {"/v1/detokenize", kPost},
    {"/v1/messages/count_tokens", kPost},
    {"/v1/chat/completions/{id}/cancel", kPost},
    {"/v1/models/{id}", kRead},
    {"/v1/responses/{id}/input_items", kRead},
    {"/v1/responses/{id}", kReadAndDelete},
    {"other", ""},
}};

}  // namespace

bool Route::answers(std::string_view method) const {
  for (std::string_view rest = methods; !rest.empty();) {
    const std::size_t end = rest.find(", ");
    if (rest.substr(0, end) == method) return true;
    rest = end == std::string_view::npos ? "" : rest.substr(end + 2);
  }
  return false;
}

std::string_view Route::id_in(std::string_view path) const {
  const std::size_t at = pattern.find(kId);
  if (at == std::string_view::npos) return {};
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kId.size());
  if (path.size() <= before.size() + after.size()) return {};
  if (!path.starts_with(before) || !path.ends_with(after)) return {};
  return path.substr(before.size(), path.size() - before.size() - after.size());
}

std::span<const Route> all_routes() { return kRoutes; }

const Route& route_of(std::string_view path) {
  for (const Route& route : kRoutes) {
    if (route.methods.empty()) continue;
    const bool whole = route.pattern.find(kId) == std::string_view::npos;
    if (whole ? path == route.pattern : !route.id_in(path).empty()) return route;
  }
  return kRoutes.back();
}

}  // namespace ft::server
