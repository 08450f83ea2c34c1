#include "hub/digest.h"

#include <fmt/format.h>
#include <new>
#include <openssl/evp.h>

#include "base/assert.h"

namespace ft::hub {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    if (context == nullptr) throw std::bad_alloc();
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Digest::Digest(std::unique_ptr<State> state) : state_(std::move(state)) {}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

Digest Digest::for_blob(std::string_view etag, std::int64_t size) {
  constexpr std::size_t kSha1Digits = 40;
  Digest digest(std::make_unique<State>());
  const bool git = etag.size() == kSha1Digits;
  const int good = EVP_DigestInit_ex(digest.state_->context, git ? EVP_sha1() : EVP_sha256(), nullptr);
  FT_ASSERT(good == 1);
  if (git) {
    const std::string head = fmt::format("blob {}", size);
    digest.add(std::as_bytes(std::span(head.c_str(), head.size() + 1)));
  }
  return digest;
}

void Digest::add(std::span<const std::byte> bytes) {
  EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
}

std::string Digest::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->context, bytes, &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace ft::hub
