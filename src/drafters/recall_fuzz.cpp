// Any bytes as texts of earlier requests: an Error with a sentence and nothing kept, or texts that are
// written as they were read and draft only tokens of the vocabulary.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "drafters/recall.h"

namespace {

constexpr int kVocabulary = 1000;

class Source final : public ft::ByteSource {
 public:
  Source(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool get(std::span<std::byte> out) override {
    if (failed_ || out.size() > size_) return failed_ = true, false;
    if (!out.empty()) std::memcpy(out.data(), data_, out.size());
    data_ += out.size(), size_ -= out.size();
    return true;
  }
  std::int64_t left() const override { return failed_ ? 0 : static_cast<std::int64_t>(size_); }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  bool failed_ = false;
};

struct Sink final : ft::ByteSink {
  bool put(std::span<const std::byte> bytes) override {
    written.insert(written.end(), bytes.begin(), bytes.end());
    return true;
  }
  std::vector<std::byte> written;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ft::RecallDrafter drafter(1, std::int64_t{1} << 20);
  Source source(data, size);
  const ft::Status read = drafter.read_from(source, kVocabulary);
  if (!read.ok()) {
    if (read.error().message.empty()) std::abort();
    return 0;
  }
  Sink sink;
  if (!drafter.write_to(sink)) std::abort();
  ft::RecallDrafter again(1, std::int64_t{1} << 20);
  Source rewritten(reinterpret_cast<const std::uint8_t*>(sink.written.data()), sink.written.size());
  if (!again.read_from(rewritten, kVocabulary).ok()) std::abort();
  std::int32_t drafts[ft::kMaxDraftTokens];
  const std::int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8};
  if (!again.open(0, 0).ok()) std::abort();
  for (std::uint64_t owner = 0; owner < 3; ++owner) {
    ft::DraftSlot slot;
    slot.tokens = text, slot.owner = owner, slot.drafts = drafts;
    slot.depth = again.plan(slot);
    ft::DraftSlot* pointer = &slot;
    if (slot.depth > 0 && !again.propose({&pointer, 1}, drafts).ok()) std::abort();
    for (int i = 0; i < slot.drafted; ++i) {
      if (drafts[i] < 0 || drafts[i] >= kVocabulary) std::abort();
    }
  }
  return 0;
}
