#include "api/openai/sealed_reasoning.h"

#include <cstdint>
#include <fmt/format.h>

#include "api/base64.h"
#include "base/utf8.h"

namespace ft::api {
namespace {

constexpr std::string_view kMark = "foretoken.reasoning.1.";
constexpr std::size_t kSumDigits = 16;

std::string checksum(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return fmt::format("{:016x}", hash);
}

}  // namespace

std::string seal_reasoning(std::string_view reasoning) {
  return std::string(kMark) + checksum(reasoning) + encode_base64(reasoning);
}

std::optional<std::string> open_reasoning(std::string_view sealed) {
  if (!sealed.starts_with(kMark)) return std::nullopt;
  sealed.remove_prefix(kMark.size());
  if (sealed.size() < kSumDigits) return std::nullopt;
  Result<std::string> text = decode_base64(sealed.substr(kSumDigits));
  if (!text.ok() || checksum(*text) != sealed.substr(0, kSumDigits) || !utf8_valid(*text))
    return std::nullopt;
  return std::move(*text);
}

}  // namespace ft::api
