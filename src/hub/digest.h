// The two hashes that name a blob: SHA-256 of a large file, and git's SHA-1 of a small one, which is over
// "blob SIZE\0" and the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "hub/hash.h"

namespace ft::hub {

class Digest {
 public:
  /// The hash of this name: 64 hexadecimal digits are SHA-256, 40 are git's SHA-1.
  static Digest for_blob(std::string_view etag, std::int64_t size);

  void add(std::span<const std::byte> bytes) { hash_->add(bytes); }
  /// Lower-case hexadecimal digits; call it once.
  std::string finish();

 private:
  explicit Digest(std::unique_ptr<Hash> hash) : hash_(std::move(hash)) {}
  std::unique_ptr<Hash> hash_;
};

}  // namespace ft::hub
