// Routes: the paths that are served, as patterns with an id in them. A closed set: what counts or logs by
// route counts by these patterns, whatever clients ask for. Pure.
#pragma once

#include <span>
#include <string_view>

namespace ft::server {

struct Route {
  std::string_view pattern;  // "/v1/responses/{id}"
  std::string_view methods;  // as Allow lists them; empty: no path has this route
  bool answers(std::string_view method) const;
  /// What stands for {id} in `path`; empty if the pattern has none.
  std::string_view id_in(std::string_view path) const;
};

/// Every route, and the last: "other", for paths that are not served.
std::span<const Route> all_routes();
const Route& route_of(std::string_view path);

}  // namespace ft::server
