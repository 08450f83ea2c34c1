#include "hub/digest.h"

#include <fmt/format.h>

namespace ft::hub {

Digest Digest::for_blob(std::string_view etag, std::int64_t size) {
  constexpr std::size_t kSha1Digits = 40;
  const bool git = etag.size() == kSha1Digits;
  Digest digest(Hash::make(git ? Hash::Kind::kSha1 : Hash::Kind::kSha256));
  if (git) {
    const std::string head = fmt::format("blob {}", size);
    digest.add(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
  }
  return digest;
}

std::string Digest::finish() {
  std::string text;
  for (const unsigned char byte : hash_->finish()) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace ft::hub
