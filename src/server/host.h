// Hosts and origins: parses Host and Origin fields completely and never compares them by prefix. Host must be
// an address of this machine, localhost, or a name in --allow-host. A page of a DNS rebinding attack has
// another name in Host, so it is refused. Pure functions, except for reading the machine's own addresses.
// Source: RFC 9110 sections 4.2 and 7.2, RFC 6454 section 6.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// "localhost:8080", "[::1]": host in lower case without brackets or trailing dot; port as digits, or empty.
struct Authority {
  std::string host, port;
  bool operator==(const Authority&) const = default;
};

/// Nullopt unless the text is host[:port]; a user name or path is invalid.
std::optional<Authority> parse_authority(std::string_view text);

struct Origin {
  std::string scheme;  // in lower case
  Authority place;
  bool operator==(const Origin&) const = default;
};

/// Nullopt unless the text is exactly scheme://host[:port]; "null" gives nullopt.
std::optional<Origin> parse_origin(std::string_view text);

/// True if --allow-host may list the host: a name or an address without a port. "*" is invalid because it
/// would disable the protection from DNS rebinding.
bool may_be_allowed(std::string_view host);

/// `here`: the local address of the connection.
bool host_fits(const Authority& host, std::string_view here, const std::vector<std::string>& allowed);

/// http://localhost:3000, http://127.0.0.1, https://[::1]:8443 ...
bool is_loopback_origin(std::string_view origin);
/// True if a page of `origin` came from this server, by the browser's Host field. Call it only with a
/// Host that host_fits() accepts. The scheme may be https because a proxy may terminate TLS.
bool is_own_page(std::string_view origin, std::string_view host);
/// True for loopback or a listed origin; "*" allows all origins.
bool origin_fits(std::string_view origin, const std::vector<std::string>& allowed);

}  // namespace ft::server
