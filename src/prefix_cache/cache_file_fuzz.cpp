// Any bytes as a file of the prefix cache; edits of a good file's header with a repaired checksum, so that
// what follows the header is checked too; and edits of a good snapshot's bytes. Each gives an Error or a
// snapshot that can be continued, never anything else.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "base/checksum.h"
#include "prefix_cache/cache_file.h"
#include "tests/bytes_in_memory.h"
#include "tests/toy_decoder.h"

namespace {

using Bytes = std::vector<std::byte>;
using View = std::span<const std::byte>;

constexpr std::size_t kHeadBytes = 376;

/// Two bytes say where to cut. Then three per edit: where (from the end if the top bit is set) and the new
/// byte.
Bytes edited(const Bytes& good, View edits) {
  Bytes bytes = good;
  const auto number = [&edits](std::size_t at) {
    return std::to_integer<std::size_t>(edits[at]) | std::to_integer<std::size_t>(edits[at + 1]) << 8;
  };
  for (std::size_t at = 2; at + 3 <= edits.size(); at += 3) {
    const std::size_t place = (number(at) & 0x7FFF) % bytes.size();
    bytes[number(at) < 0x8000 ? place : bytes.size() - 1 - place] = edits[at + 2];
  }
  if (edits.size() >= 2 && number(0) != 0xFFFF) bytes.resize(std::min(bytes.size(), number(0)));
  return bytes;
}

void read_file(View bytes) {
  const int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || ::write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  const auto taken = ft::DiskStore::take(fd);
  if (!taken.ok()) std::abort();
  ft::Result<ft::CacheFileReader> file = ft::CacheFileReader::open(*taken, ft::fingerprint("fuzz"));
  if (!file.ok() && file.error().message.empty()) std::abort();
  if (!file.ok() || !file->begin(std::int64_t{1} << 62).ok()) return;
  std::vector<std::int32_t> tokens;
  std::byte byte{};
  if (ft::get_list(*file, tokens)) {
    while (file->get({&byte, 1})) continue;
  }
}

void read_head(Bytes file) {
  if (file.size() >= kHeadBytes) {
    const auto sum = std::span(file).subspan(kHeadBytes - sizeof(std::uint64_t), sizeof(std::uint64_t));
    std::ranges::fill(sum, std::byte{0});
    const std::uint64_t repaired = ft::checksum(View(file).first(kHeadBytes));
    std::memcpy(sum.data(), &repaired, sizeof repaired);
  }
  read_file(file);
}

/// A slot after a prompt of five tokens, as bytes.
Bytes good_snapshot(ft::test::ToyDecoder& decoder) {
  const auto slot = decoder.open({1, 2, 3, 4, 5, 6}, {}, ft::DrafterKind::kMtp);
  ft::test::Written sink;
  (*decoder->snapshot(*slot)).write_to(sink);
  decoder->close(*slot);
  return sink.bytes;
}

Bytes good_file() {
  static const std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5};
  const std::atomic<bool> stop{false};
  static const std::vector<std::string> shared = {ft::fingerprint("rows"), ft::fingerprint("more rows")};
  ft::MemoryStore store;
  ft::CacheFileWriter writer(store, "good", 1 << 20, stop);
  ft::put_list<std::int32_t>(writer, tokens);
  if (!writer.finish(ft::CachePlace::of(tokens, 3, true), ft::fingerprint("fuzz"), shared).ok()) std::abort();
  const auto file = store.open("good");
  Bytes bytes(static_cast<std::size_t>((*file)->size()));
  if (!(*file)->read_at(bytes, 0).ok()) std::abort();
  return bytes;
}

void read_snapshot(ft::test::ToyDecoder& decoder, View bytes) {
  ft::test::Given source(bytes);
  const ft::Result<ft::Snapshot> snapshot = decoder->snapshots().read(source);
  if (!snapshot.ok() && snapshot.error().message.empty()) std::abort();
  if (!snapshot.ok() || snapshot->high() + 1 >= decoder->options().context) return;
  const std::vector<std::int32_t> prompt(static_cast<std::size_t>(snapshot->high()) + 1, 1);
  for (const std::int64_t length : {snapshot->low(), snapshot->high()}) {
    const auto slot = decoder->open(prompt, {}, ft::DrafterKind::kMtp, {&*snapshot, length});
    if (slot.ok()) decoder->close(**slot);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static ft::test::ToyDecoder decoder(1, {}, 160, 1 << 20);
  static const Bytes file = good_file(), snapshot = good_snapshot(decoder);
  const View bytes(reinterpret_cast<const std::byte*>(data), size);
  read_file(bytes);
  read_head(edited(file, bytes));
  read_snapshot(decoder, edited(snapshot, bytes));
  return 0;
}
