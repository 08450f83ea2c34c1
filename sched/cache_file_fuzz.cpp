// Any bytes as a file of the prefix cache, and as the body of one: an Error, or a snapshot that can be begun
// from; never anything else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checksum.h"
#include "sched/cache_file.h"
#include "tests/toy_decoder.h"

namespace {

class Bytes final : public ft::ByteSource {
 public:
  explicit Bytes(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool get(std::span<std::byte> out) override {
    failed_ = failed_ || out.size() > bytes_.size();
    if (failed_) return false;
    std::ranges::copy(bytes_.first(out.size()), out.begin());
    bytes_ = bytes_.subspan(out.size());
    return true;
  }
  std::int64_t left() const override { return static_cast<std::int64_t>(bytes_.size()); }

 private:
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

void read_file(std::span<const std::byte> bytes) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  ft::Result<ft::CacheFileReader> file = ft::CacheFileReader::open(fd, ft::fingerprint("fuzz"));
  if (!file.ok()) return file.error().message.empty() ? std::abort() : void();
  if (!file->begin(std::int64_t{1} << 62).ok()) return;
  std::byte byte{};
  while (file->get({&byte, 1})) continue;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  read_file(bytes);
  static ft::test::ToyDecoder decoder(1, {}, 160, 1 << 20);
  Bytes body(bytes);
  const ft::Result<ft::Snapshot> snapshot = decoder->read_snapshot(body);
  if (!snapshot.ok()) return snapshot.error().message.empty() ? std::abort(), 0 : 0;
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(snapshot->high()) + 1, 1);
  if (prompt.size() >= 160) return 0;
  const auto slot = decoder->open(prompt, {}, ft::DrafterKind::kMtp, {&*snapshot, snapshot->high()});
  if (slot.ok()) decoder->close(**slot);
  return 0;
}
