#include "hub/web_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system.h"
#include "hub/curl_library.h"

namespace ft::hub {
namespace {

/// Bits of an address that name a range.
struct Range {
  std::array<std::uint8_t, 16> bytes;
  int bits;
};

bool within(std::span<const std::uint8_t> address, const Range& range) {
  const int whole = range.bits / 8, rest = range.bits % 8;
  if (!std::equal(address.begin(), address.begin() + whole, range.bytes.begin())) return false;
  if (rest == 0) return true;
  const auto at = static_cast<std::size_t>(whole);
  return (address[at] ^ range.bytes[at]) >> (8 - rest) == 0;
}

bool any_of(std::span<const std::uint8_t> address, std::span<const Range> ranges) {
  return std::ranges::any_of(ranges, [&](const Range& range) { return within(address, range); });
}

constexpr Range kNotPublic4[] = {{{0}, 8},
                                 {{10}, 8},
                                 {{100, 64}, 10},
                                 {{127}, 8},
                                 {{169, 254}, 16},
                                 {{172, 16}, 12},
                                 {{192, 0, 0}, 24},
                                 {{192, 0, 2}, 24},
                                 {{192, 88, 99}, 24},
                                 {{192, 168}, 16},
                                 {{198, 18}, 15},
                                 {{198, 51, 100}, 24},
                                 {{203, 0, 113}, 24},
                                 {{224}, 4},
                                 {{240}, 4}};
// Assigned addresses are in 2000::/3; excluded are protocols, 6to4 and documentation.
constexpr Range kGivenOut6 = {{0x20}, 3};
constexpr Range kNotPublic6[] = {
    {{0x20, 0x01, 0x00}, 23}, {{0x20, 0x01, 0x0d, 0xb8}, 32}, {{0x20, 0x02}, 16}, {{0x3f, 0xff}, 20}};
// The last four bytes are an IPv4 address: mapped (::ffff:0:0/96) and translated (64:ff9b::/96).
constexpr Range kHolds4[] = {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96}, {{0, 0x64, 0xff, 0x9b}, 96}};

struct Fetch {
  const WebFileLimits* limits = nullptr;
  std::string body;
  bool too_large = false, refused = false;
};

/// The bytes of the address that libcurl is about to connect to; none for a family that is not of the web.
std::span<const std::uint8_t> bytes_of(const curl_sockaddr& to) {
  const auto* start = reinterpret_cast<const std::uint8_t*>(&to.addr);
  if (to.family == AF_INET) return {start + offsetof(sockaddr_in, sin_addr), 4};
  if (to.family == AF_INET6) return {start + offsetof(sockaddr_in6, sin6_addr), 16};
  return {};
}

curl_socket_t on_open(void* self, curlsocktype purpose, curl_sockaddr* to) {
  Fetch& fetch = *static_cast<Fetch*>(self);
  const auto address = bytes_of(*to);
  if (purpose != CURLSOCKTYPE_IPCXN || address.empty() || !fetch.limits->allows(address)) {
    fetch.refused = true;
    return CURL_SOCKET_BAD;
  }
  return open_socket(to->family, to->socktype, to->protocol);
}

std::size_t on_bytes(char* bytes, std::size_t one, std::size_t count, void* self) {
  Fetch& fetch = *static_cast<Fetch*>(self);
  const std::size_t size = one * count;
  if (size > fetch.limits->bytes - fetch.body.size()) {
    fetch.too_large = true;
    return 0;
  }
  fetch.body.append(bytes, size);
  return size;
}

/// One handle for one URL with its redirects.
class Client {
 public:
  Client(const Curl& curl, const WebFileLimits& limits) : curl_(curl), handle_(curl.easy_init()) {
    fetch_.limits = &limits;
  }
  ~Client() {
    if (handle_ != nullptr) curl_.cleanup(handle_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Result<std::string> get(std::string url) {
    if (handle_ == nullptr)
      return Error{Code::kExhausted, "libcurl cannot start; free memory by closing other programs"};
    std::int64_t left_ms = fetch_.limits->total_ms;
    for (int hop = 0;; ++hop) {
      std::string next;
      FT_TRY(one(url, left_ms, next));
      curl_off_t spent_us = 0;
      curl_.getinfo(handle_, CURLINFO_TOTAL_TIME_T, &spent_us);
      left_ms = std::max<std::int64_t>(1, left_ms - spent_us / 1000);
      if (next.empty()) return std::move(fetch_.body);
      if (hop == kMaxFileRedirects)
        return Error{Code::kInvalid,
                     fmt::format("the address redirects more than {} times", kMaxFileRedirects)};
      if (url.starts_with("https:") && !next.starts_with("https:"))
        return Error{Code::kInvalid, "the address redirects from https to another scheme"};
      url = std::move(next);
    }
  }

 private:
  void prepare(const std::string& url, std::int64_t left_ms, curl_slist* headers) {
    const auto set = [this](CURLoption option, auto value) { curl_.setopt(handle_, option, value); };
    curl_.reset(handle_);
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_USERAGENT, "foretoken");
    set(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_FRESH_CONNECT, 1L), set(CURLOPT_FORBID_REUSE, 1L);
    set(CURLOPT_TIMEOUT_MS, static_cast<long>(left_ms));
    set(CURLOPT_MAXFILESIZE_LARGE, static_cast<curl_off_t>(fetch_.limits->bytes));
    set(CURLOPT_OPENSOCKETFUNCTION, on_open);
    set(CURLOPT_OPENSOCKETDATA, static_cast<void*>(&fetch_));
    set(CURLOPT_WRITEFUNCTION, on_bytes);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&fetch_));
  }

  /// `next`: where the answer redirects to; empty: the body is whole.
  Status one(const std::string& url, std::int64_t left_ms, std::string& next) {
    fetch_.body.clear(), fetch_.refused = fetch_.too_large = false;
    curl_slist* headers = curl_.slist_append(nullptr, "Accept: image/*");
    prepare(url, left_ms, headers);
    const CURLcode code = curl_.perform(handle_);
    curl_.slist_free_all(headers);
    if (code != CURLE_OK) return failure(code);
    long status = 0;
    curl_.getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200) return {};
    const char* redirect = nullptr;
    curl_.getinfo(handle_, CURLINFO_REDIRECT_URL, &redirect);
    if (status >= 300 && status < 400 && redirect != nullptr) {
      next = redirect;
      return {};
    }
    return Error{Code::kInvalid, fmt::format("its server answered with status {}", status)};
  }

  /// The message reveals nothing about the network.
  Error failure(CURLcode code) const {
    const auto said = [](std::string sentence) { return Error{Code::kInvalid, std::move(sentence)}; };
    if (fetch_.too_large || code == CURLE_FILESIZE_EXCEEDED)
      return said(fmt::format("the file has more than {} bytes", fetch_.limits->bytes));
    if (fetch_.refused) return said("its address is not a public address of another machine");
    if (code == CURLE_OPERATION_TIMEDOUT)
      return said(fmt::format("it did not arrive within {} ms", fetch_.limits->total_ms));
    return said(fmt::format("it cannot be fetched ({})", curl_.strerror(code)));
  }

  const Curl& curl_;
  CURL* handle_;
  Fetch fetch_;
};

}  // namespace

bool is_public_address(std::span<const std::uint8_t> address) {
  if (address.size() == 4) return !any_of(address, kNotPublic4);
  if (address.size() != 16) return false;
  if (any_of(address, kHolds4)) return is_public_address(address.last(4));
  return within(address, kGivenOut6) && !any_of(address, kNotPublic6);
}

/// If the destination is one of its own addresses, the system sends from that same address.
bool is_own_address(std::span<const std::uint8_t> address) {
  if (address.size() == 16 && any_of(address, kHolds4)) return is_own_address(address.last(4));
  sockaddr_storage to{}, from{};
  socklen_t size = address.size() == 4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const auto place = [&](sockaddr_storage& in) {
    auto* start = reinterpret_cast<std::uint8_t*>(&in);
    return std::span(
        start + (address.size() == 4 ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr)),
        address.size());
  };
  to.ss_family = address.size() == 4 ? AF_INET : AF_INET6;
  std::ranges::copy(address, place(to).begin());
  auto* port = reinterpret_cast<std::uint8_t*>(&to) + offsetof(sockaddr_in, sin_port);  // the same in both
  port[1] = 9;
  const int socket = open_socket(to.ss_family, SOCK_DGRAM, 0);
  if (socket < 0) return true;  // unknown: not contacted
  const bool routed = ::connect(socket, reinterpret_cast<const sockaddr*>(&to), size) == 0 &&
                      ::getsockname(socket, reinterpret_cast<sockaddr*>(&from), &size) == 0;
  ::close(socket);
  return routed && std::ranges::equal(place(from), address);
}

bool may_be_asked(std::span<const std::uint8_t> address) {
  return is_public_address(address) && !is_own_address(address);
}

Result<std::string> fetch_web_file(const std::string& url, const WebFileLimits& limits) {
  const Curl* curl = curl_library();
  if (curl == nullptr) {
    return Error{Code::kUnsupported, "files are fetched with libcurl, which is not on the server's machine"};
  }
  return Client(*curl, limits).get(url);
}

}  // namespace ft::hub
