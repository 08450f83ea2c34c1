#include "server/host.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <ifaddrs.h>
#include <memory>
#include <netinet/in.h>

#include "base/ascii.h"

namespace ft::server {
namespace {

namespace ip = boost::asio::ip;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Maps ::ffff:127.0.0.1 to 127.0.0.1 and ignores the interface name.
std::optional<ip::address> address_of(std::string_view text) {
  boost::system::error_code error;
  ip::address address = ip::make_address(std::string(text), error);
  if (error) return std::nullopt;
  if (!address.is_v6()) return address;
  ip::address_v6 six = address.to_v6();
  six.scope_id(0);
  if (six.is_v4_mapped()) return ip::make_address_v4(ip::v4_mapped, six);
  return six;
}

bool is_interface_address(const ip::address& wanted) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if (entry->ifa_addr->sa_family == AF_INET && wanted.is_v4()) {
      const auto* four = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      if (ntohl(four->sin_addr.s_addr) == wanted.to_v4().to_uint()) return true;
    }
    if (entry->ifa_addr->sa_family == AF_INET6 && wanted.is_v6()) {
      const auto* six = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      const ip::address_v6::bytes_type bytes = wanted.to_v6().to_bytes();
      if (std::equal(bytes.begin(), bytes.end(), six->sin6_addr.s6_addr)) return true;
    }
  }
  return false;
}

bool is_loopback(const std::string& host) {
  if (host == "localhost") return true;
  const std::optional<ip::address> address = address_of(host);
  return address && address->is_loopback();
}

bool is_port(std::string_view text) {
  return text.size() <= 5 && std::all_of(text.begin(), text.end(), is_digit) &&
         (text.empty() || std::stoi(std::string(text)) <= 65535);
}

/// The address between brackets, or nullopt.
std::optional<std::string> bracketed_host(std::string_view text) {
  constexpr std::string_view kFits = "0123456789abcdefABCDEF:.";
  if (text.find_first_not_of(kFits) != std::string_view::npos) return std::nullopt;
  if (text.find(':') == std::string_view::npos || !address_of(text)) return std::nullopt;
  return lower(text);
}

std::optional<std::string> named_host(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  const bool fits = std::all_of(text.begin(), text.end(), [](char c) {
    return is_letter(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
  });
  if (!fits || text.empty()) return std::nullopt;
  return lower(text);
}

}  // namespace

std::optional<Authority> parse_authority(std::string_view text) {
  const bool brackets = text.starts_with('[');
  const std::size_t end = brackets ? text.find(']') : text.find(':');
  if (brackets && end == std::string_view::npos) return std::nullopt;
  const std::optional<std::string> host =
      brackets ? bracketed_host(text.substr(1, end - 1)) : named_host(text.substr(0, end));
  std::string_view rest = text.substr(std::min(text.size(), brackets ? end + 1 : end));
  if (!rest.empty() && rest.front() != ':') return std::nullopt;
  if (!rest.empty()) rest.remove_prefix(1);
  if (!host || !is_port(rest)) return std::nullopt;
  return Authority{*host, std::string(rest)};
}

std::optional<Origin> parse_origin(std::string_view text) {
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const std::string_view scheme = text.substr(0, colon);
  const bool fits = is_letter(scheme.front()) && std::all_of(scheme.begin(), scheme.end(), [](char c) {
                      return is_letter(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
                    });
  const std::optional<Authority> place = parse_authority(text.substr(colon + 3));
  if (!fits || !place) return std::nullopt;
  return Origin{lower(scheme), *place};
}

bool may_be_allowed(std::string_view host) {
  if (host.find(':') != std::string_view::npos && !host.starts_with('[')) return address_of(host).has_value();
  const std::optional<Authority> parsed = parse_authority(host);
  return parsed && parsed->port.empty() && !host.ends_with(':');
}

bool host_fits(const Authority& host, std::string_view here, const std::vector<std::string>& allowed) {
  if (is_loopback(host.host)) return true;
  const std::optional<ip::address> address = address_of(host.host);
  for (const std::string& entry : allowed) {
    const std::optional<Authority> name = parse_authority(entry);
    if (name && name->host == host.host) return true;
    if (address && address_of(name ? name->host : entry) == address) return true;
  }
  return address && (address_of(here) == address || is_interface_address(*address));
}

bool is_loopback_origin(std::string_view origin) {
  const std::optional<Origin> parsed = parse_origin(origin);
  return parsed && (parsed->scheme == "http" || parsed->scheme == "https") && is_loopback(parsed->place.host);
}

bool is_own_page(std::string_view origin, std::string_view host) {
  const std::optional<Origin> page = parse_origin(origin);
  return page && (page->scheme == "http" || page->scheme == "https") && page->place == parse_authority(host);
}

bool origin_fits(std::string_view origin, const std::vector<std::string>& allowed) {
  if (is_loopback_origin(origin)) return true;
  const std::optional<Origin> parsed = parse_origin(origin);
  return std::any_of(allowed.begin(), allowed.end(), [&](const std::string& entry) {
    return entry == "*" || entry == origin || (parsed && parse_origin(entry) == parsed);
  });
}

}  // namespace ft::server
