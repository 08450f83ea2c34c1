// The hashes that are a part of macOS. Compiled on Linux (tools/check --only mac); it has not run on a Mac
// yet.
#include "hub/hash.h"

#include <CommonCrypto/CommonDigest.h>
#include <algorithm>

namespace ft::hub {
namespace {

/// CC_LONG has 32 bits: longer spans are added in pieces.
template <class Context, int (*Begin)(Context*), int (*Update)(Context*, const void*, CC_LONG),
          int (*Final)(unsigned char*, Context*), int Size>
class SystemHash final : public Hash {
 public:
  SystemHash() { Begin(&context_); }
  void add(std::span<const std::byte> bytes) override {
    constexpr std::size_t kPiece = std::size_t{1} << 30;
    while (!bytes.empty()) {
      const std::size_t piece = std::min(bytes.size(), kPiece);
      Update(&context_, bytes.data(), static_cast<CC_LONG>(piece));
      bytes = bytes.subspan(piece);
    }
  }
  std::vector<unsigned char> finish() override {
    std::vector<unsigned char> bytes(Size);
    Final(bytes.data(), &context_);
    return bytes;
  }

 private:
  Context context_{};
};

using Sha1 = SystemHash<CC_SHA1_CTX, CC_SHA1_Init, CC_SHA1_Update, CC_SHA1_Final, CC_SHA1_DIGEST_LENGTH>;
using Sha256 =
    SystemHash<CC_SHA256_CTX, CC_SHA256_Init, CC_SHA256_Update, CC_SHA256_Final, CC_SHA256_DIGEST_LENGTH>;

}  // namespace

std::unique_ptr<Hash> Hash::make(Kind kind) {
  if (kind == Kind::kSha1) return std::make_unique<Sha1>();
  return std::make_unique<Sha256>();
}

}  // namespace ft::hub
