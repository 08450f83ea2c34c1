// The hashes that are a part of macOS. Compiled on Linux (tools/check --only mac); it has not run on a Mac
// yet.
#include "hub/digest.h"

#include <CommonCrypto/CommonDigest.h>
#include <algorithm>
#include <fmt/format.h>

namespace ft::hub {

struct Digest::State {
  bool git = false;
  CC_SHA1_CTX sha1{};
  CC_SHA256_CTX sha256{};
};

Digest::Digest(std::unique_ptr<State> state) : state_(std::move(state)) {}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

Digest Digest::for_blob(std::string_view etag, std::int64_t size) {
  constexpr std::size_t kSha1Digits = 40;
  Digest digest(std::make_unique<State>());
  digest.state_->git = etag.size() == kSha1Digits;
  CC_SHA1_Init(&digest.state_->sha1);
  CC_SHA256_Init(&digest.state_->sha256);
  if (digest.state_->git) {
    const std::string head = fmt::format("blob {}", size);
    digest.add(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
  }
  return digest;
}

// CC_LONG has 32 bits: longer spans are added in pieces.
void Digest::add(std::span<const std::byte> bytes) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const auto piece = static_cast<CC_LONG>(std::min(bytes.size(), kPiece));
    if (state_->git) {
      CC_SHA1_Update(&state_->sha1, bytes.data(), piece);
    } else {
      CC_SHA256_Update(&state_->sha256, bytes.data(), piece);
    }
    bytes = bytes.subspan(piece);
  }
}

std::string Digest::finish() {
  unsigned char bytes[CC_SHA256_DIGEST_LENGTH];
  if (state_->git) {
    CC_SHA1_Final(bytes, &state_->sha1);
  } else {
    CC_SHA256_Final(bytes, &state_->sha256);
  }
  std::string text;
  const int size = state_->git ? CC_SHA1_DIGEST_LENGTH : CC_SHA256_DIGEST_LENGTH;
  for (int i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace ft::hub
