// Hosts and origins: what a request's Host and Origin fields name, parsed whole and never compared by prefix.
// A Host must be an address of this machine, localhost, or a name that --allow-host lists: a page whose name
// was turned to this machine (DNS rebinding) names another one. Pure, but for the machine's own addresses.
// Source: RFC 9110 section 4.2 and 7.2, RFC 6454 section 6.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// "localhost:8080", "[::1]": host in lower case without brackets or last dot; port as digits or empty.
struct Authority {
  std::string host, port;
  bool operator==(const Authority&) const = default;
};

/// Nothing if it is not host[:port]; a user's name or a path is not.
std::optional<Authority> parse_authority(std::string_view text);

struct Origin {
  std::string scheme;  // in lower case
  Authority place;
  bool operator==(const Origin&) const = default;
};

/// Nothing if it is not scheme://host[:port] and no more; "null" is nothing.
std::optional<Origin> parse_origin(std::string_view text);

/// A host that --allow-host may name: a name or an address without a port. Not "*": with it any page whose
/// name was turned to this machine would be its own.
bool may_be_allowed(std::string_view host);

/// `here`: the address at which the client reached this machine.
bool host_fits(const Authority& host, std::string_view here, const std::vector<std::string>& allowed);

/// http://localhost:3000, http://127.0.0.1, https://[::1]:8443 ...
bool is_loopback_origin(std::string_view origin);
/// Whether a page of `origin` came from this server, by the Host that the browser names. Only for a Host that
/// host_fits() takes. The scheme may be https: a proxy in front ends TLS.
bool is_own_page(std::string_view origin, std::string_view host);
/// Of loopback, or listed; "*" lists all.
bool origin_fits(std::string_view origin, const std::vector<std::string>& allowed);

}  // namespace ft::server
