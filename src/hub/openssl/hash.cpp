#include "hub/hash.h"

#include <new>
#include <openssl/evp.h>

#include "base/assert.h"

namespace ft::hub {
namespace {

class OpensslHash final : public Hash {
 public:
  explicit OpensslHash(Kind kind) {
    if (context_ == nullptr) throw std::bad_alloc();
    const int good = EVP_DigestInit_ex(context_, kind == Kind::kSha1 ? EVP_sha1() : EVP_sha256(), nullptr);
    FT_ASSERT(good == 1);
  }
  ~OpensslHash() override { EVP_MD_CTX_free(context_); }
  OpensslHash(const OpensslHash&) = delete;
  OpensslHash& operator=(const OpensslHash&) = delete;

  void add(std::span<const std::byte> bytes) override {
    EVP_DigestUpdate(context_, bytes.data(), bytes.size());
  }
  std::vector<unsigned char> finish() override {
    std::vector<unsigned char> bytes(EVP_MAX_MD_SIZE);
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_, bytes.data(), &size);
    bytes.resize(size);
    return bytes;
  }

 private:
  EVP_MD_CTX* context_ = EVP_MD_CTX_new();
};

}  // namespace

std::unique_ptr<Hash> Hash::make(Kind kind) { return std::make_unique<OpensslHash>(kind); }

}  // namespace ft::hub
