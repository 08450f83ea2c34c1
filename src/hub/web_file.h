// A file at a web address that a client named, such as an image: the server must not give clients access to
// its network. Every address is checked when libcurl is about to connect to it, after name resolution and at
// each redirect, so the checked address is the connected one. Environment proxies are not used: they would
// connect elsewhere. Cookies and credentials are never sent.
//   size       at most WebFileLimits::bytes, also if the answer announces less
//   time       of all redirects together
//   redirects  at most kMaxFileRedirects, http and https only, never from https to http
// Thread-safe; the calling thread waits. Errors: kInvalid, with a sentence for the client that names the host
// and nothing about the network; kUnsupported without libcurl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace ft::hub {

inline constexpr int kMaxFileRedirects = 3;

/// Whether an address of 4 or 16 bytes (network order) is public: not in a private network, this machine, a
/// link-local, multicast or documentation range, and no other form of such an IPv4 address. Source: IANA's
/// special-purpose address registries.
bool is_public_address(std::span<const std::uint8_t> address);

/// Whether the address, as above, reaches this machine itself: one of its interfaces, or a range that it
/// answers for. A router that sends an outer address back here is not known. Sends nothing.
bool is_own_address(std::span<const std::uint8_t> address);
/// A public address of another machine.
bool may_be_asked(std::span<const std::uint8_t> address);

struct WebFileLimits {
  std::size_t bytes = std::size_t{20} << 20;  // equal to images::kMaxFileBytes
  std::int64_t total_ms = 10'000;
  /// Checks each address before it is connected to. Tests hand in their own; the program does not.
  std::function<bool(std::span<const std::uint8_t> address)> allows = may_be_asked;
};

Result<std::string> fetch_web_file(const std::string& url, const WebFileLimits& limits);

}  // namespace ft::hub
