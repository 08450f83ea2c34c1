// SHA-1 and SHA-256 as a library of the system computes them: OpenSSL (hub/openssl), or CommonCrypto on macOS
// (hub/macos). Errors: std::bad_alloc.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace ft::hub {

class Hash {
 public:
  enum class Kind { kSha1, kSha256 };
  static std::unique_ptr<Hash> make(Kind kind);
  virtual ~Hash() = default;

  virtual void add(std::span<const std::byte> bytes) = 0;
  /// The bytes of the hash; call it once.
  virtual std::vector<unsigned char> finish() = 0;
};

}  // namespace ft::hub
