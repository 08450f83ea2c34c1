#include "base/random_source.h"

#include <atomic>
#include <cerrno>
#include <sys/random.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ft {
namespace {

std::atomic<const RandomSource*> replaced{nullptr};

}  // namespace

void fill_random(std::span<std::byte> out) {
  if (const RandomSource* source = replaced.load(); source != nullptr) return (*source)(out);
  while (::getentropy(out.data(), out.size()) != 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "no random bytes");
  }
}

std::uint64_t random_64() {
  std::uint64_t value = 0;
  fill_random(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

ReplacedRandomSource::ReplacedRandomSource(RandomSource source) : source_(std::move(source)) {
  replaced = &source_;
}

ReplacedRandomSource::~ReplacedRandomSource() { replaced = nullptr; }

}  // namespace ft
