#include "server/framing.h"

#include <algorithm>
#include <vector>

namespace ft::server {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::vector<std::string_view> fields_of(const HttpRequest& http_request, std::string_view name) {
  std::vector<std::string_view> values;
  for (const auto& [key, value] : http_request.headers) {
    if (same_name(key, name)) values.push_back(trimmed(value));
  }
  return values;
}

/// The last coding of the last Transfer-Encoding field.
std::string_view last_coding(const std::vector<std::string_view>& codings) {
  const std::string_view last = codings.back();
  const std::size_t comma = last.rfind(',');
  return comma == std::string_view::npos ? last : trimmed(last.substr(comma + 1));
}

}  // namespace

std::optional<FramingFault> framing_fault(const HttpRequest& http_request, unsigned version) {
  const std::vector<std::string_view> codings = fields_of(http_request, "transfer-encoding");
  const std::vector<std::string_view> lengths = fields_of(http_request, "content-length");
  if (!codings.empty() && version < 11) {
    return FramingFault{400, "Transfer-Encoding needs HTTP/1.1"};
  }
  if (!codings.empty() && !lengths.empty()) {
    return FramingFault{400, "Transfer-Encoding and Content-Length are both given; send one of them"};
  }
  const bool chunked = codings.size() == 1 && same_name(codings.front(), "chunked");
  if (!codings.empty() && !chunked) {
    if (!same_name(last_coding(codings), "chunked")) {
      return FramingFault{400, "the last transfer coding must be chunked, or the body has no end"};
    }
    return FramingFault{
        501, "only the chunked transfer coding is supported; send the body without another coding"};
  }
  const bool list = std::ranges::any_of(
      lengths, [](std::string_view length) { return length.find(',') != std::string_view::npos; });
  if (lengths.size() > 1 || list) return FramingFault{400, "Content-Length is given more than once"};
  const std::size_t hosts = fields_of(http_request, "host").size();
  if (hosts > 1) return FramingFault{400, "Host is given more than once"};
  if (hosts == 0 && version >= 11) return FramingFault{400, "Host is missing; HTTP/1.1 needs it"};
  if (fields_of(http_request, "origin").size() > 1)
    return FramingFault{400, "Origin is given more than once"};
  return std::nullopt;
}

}  // namespace ft::server
