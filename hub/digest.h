// The two hashes that name a blob: SHA-256 of a large file, and git's SHA-1 of a small one, which is over
// "blob SIZE\0" and the bytes. OpenSSL computes both (hub/openssl), CommonCrypto on macOS
// (hub/macos).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ft::hub {

class Digest {
 public:
  /// The hash whose name `etag` is: 64 hexadecimal digits are SHA-256, 40 are git's SHA-1.
  static Digest for_blob(std::string_view etag, std::int64_t size);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void add(std::span<const std::byte> bytes);
  /// Lower-case hexadecimal digits; call it once.
  std::string finish();

 private:
  struct State;
  explicit Digest(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ft::hub
