// Snapshots as bytes and back, with a small random model on the reference backend.
#include "speculation/snapshot.h"

#include <algorithm>

#include "tests/bytes_in_memory.h"
#include "tests/toy_decoder.h"

namespace ft::test::snapshot_test {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens counted(int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(i * 7 % 101);
  return tokens;
}

class SnapshotBytes : public testing::Test {
 protected:
  Snapshot take(ToyDecoder& decoder, const Tokens& tokens, DrafterKind kind) {
    Tokens prompt = tokens;
    prompt.push_back(1);  // the pending token
    const auto slot = decoder.open(prompt, {}, kind);
    Snapshot snapshot = std::move(*decoder->snapshot(*slot));
    decoder->close(*slot);
    return snapshot;
  }

  ToyDecoder here_{1, {}, 256, 1 << 20}, there_{1, {}, 256, 1 << 20};
};

TEST_F(SnapshotBytes, ASequenceContinuedElsewhereHasTheSameTokensAndDrafts) {
  SlotOptions options;
  options.max_tokens = 40, options.depth = 3;
  options.sampler.temperature = 0.8F, options.sampler.seed = 2;
  for (const DrafterKind kind : {DrafterKind::kMtp, DrafterKind::kNone}) {
    for (const int length : {1, 16, 31, 32, 100}) {
      Written written;
      ASSERT_TRUE(take(here_, counted(length), kind).write_to(written));
      Given given(written.bytes);
      const Snapshot snapshot = std::move(*there_->snapshots().read(given));
      EXPECT_EQ(snapshot.high(), length);
      const Tokens prompt = counted(length + 9);
      for (std::int64_t from = snapshot.low(); from <= length; ++from) {
        const auto warm = std::move(*there_->open(prompt, options, kind, {&snapshot, from}));
        while (!warm->prefilled()) ASSERT_TRUE(there_->prefill(*warm, 5).ok());
        there_.finish(*warm);
        const auto cold = here_.open(prompt, options, kind);
        here_.finish(*cold);
        EXPECT_EQ(ToyDecoder::output(*warm), ToyDecoder::output(*cold)) << length << " from " << from;
        EXPECT_EQ(warm->report.accepted_at, cold->report.accepted_at);
        there_->close(*warm), here_->close(*cold);
      }
    }
  }
}

TEST_F(SnapshotBytes, WhatIsCutOrTooLongIsRefusedAndHoldsNothing) {
  Written written;
  ASSERT_TRUE(take(here_, counted(70), DrafterKind::kMtp).write_to(written));
  const int blocks = there_->pool().free_blocks(), slots = there_->pool().free_slots();
  const int draft_blocks = there_->draft_pool()->free_blocks();
  const auto refused = [&](std::span<const std::byte> bytes) {
    Given given(bytes);
    const Result<Snapshot> snapshot = there_->snapshots().read(given);
    return !snapshot.ok() && snapshot.error().code == Code::kCorrupt;
  };
  const std::size_t size = written.bytes.size();
  for (std::size_t length = 0; length < size; length += length < 64 || size - length < 64 ? 1 : 61)
    EXPECT_TRUE(refused(std::span(written.bytes).first(length))) << length;
  std::vector<std::byte> longer = written.bytes;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(refused(longer));
  for (std::size_t at = 0; at < 16; ++at) {  // length, replay, tape
    std::vector<std::byte> wrong = written.bytes;
    wrong[at] ^= std::byte{0x80};
    Given given(wrong);
    EXPECT_FALSE(there_->snapshots().read(given).ok()) << at;
  }
  EXPECT_EQ(there_->pool().free_blocks(), blocks);
  EXPECT_EQ(there_->pool().free_slots(), slots);
  EXPECT_EQ(there_->draft_pool()->free_blocks(), draft_blocks);
}

TEST_F(SnapshotBytes, ASinkThatIsFullIsTold) {
  const Snapshot snapshot = take(here_, counted(70), DrafterKind::kMtp);
  Written written;
  ASSERT_TRUE(snapshot.write_to(written));
  Written same(written.bytes.size()), smaller(written.bytes.size() - 1);
  EXPECT_TRUE(snapshot.write_to(same));
  EXPECT_FALSE(snapshot.write_to(smaller));
}

TEST_F(SnapshotBytes, WithoutRoomItIsExhaustedNotCorrupt) {
  Written written;
  ASSERT_TRUE(take(here_, counted(200), DrafterKind::kMtp).write_to(written));
  ToyDecoder small(1, {}, 32);
  Given given(written.bytes);
  EXPECT_EQ(small->snapshots().read(given).error().code, Code::kExhausted);
}

TEST_F(SnapshotBytes, TheIdentityIsThatOfTheModel) {
  EXPECT_EQ(here_->snapshots().state_identity(), there_->snapshots().state_identity());
  ToyOptions wider;
  wider.hidden *= 2;
  EXPECT_NE(ToyDecoder(1, wider)->snapshots().state_identity(), here_->snapshots().state_identity());
}

}  // namespace
}  // namespace ft::test::snapshot_test
