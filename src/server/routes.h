// Routes: the served paths, as patterns with an id. It is a closed set: metrics and logs count by these
// patterns whatever paths clients request.
#pragma once

#include <span>
#include <string_view>

namespace ft::server {

struct Route {
  std::string_view pattern;  // "/v1/responses/{id}"
  std::string_view methods;  // value of Allow; empty: no path has this route
  bool answers(std::string_view method) const;
  /// The value of {id} in `path`; empty if the pattern has none.
  std::string_view id_in(std::string_view path) const;
};

/// All routes; the last is "other", for unknown paths.
std::span<const Route> all_routes();
const Route& route_of(std::string_view path);

}  // namespace ft::server
