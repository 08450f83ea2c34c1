// Drafts from texts of earlier requests of the same user, prompts and answers. Where the last kGram tokens of
// a sequence occurred in them, the places with the longest match vote for the next token, and the places that
// agree vote for the one after it. The share of votes is the chance that a draft is right; drafting ends when
// the chance of all drafts together falls below kMinChance. Source: SuffixDecoding (Oliaro et al., arXiv
// 2411.04975), with hash chains over a ring of tokens in place of a suffix tree: the same counts for the last
// kMaxPlaces places, in a fixed memory. A text that is used again is stored again with the answer that
// repeats it, so the dropped text is the least recently used one. One user's text never drafts for another
// user: each has a separate ring (DraftSlot::owner). The ring of the least recently active user goes first.
// Cost: O(places) for each round, O(1) for each token that is learnt.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <vector>

#include "base/byte_stream.h"
#include "drafters/drafter.h"

namespace ft {

/// The texts of one user, newest last, with the places of every gram in them.
class RecallRing {
 public:
  static constexpr int kGram = 4;        // tokens of a match, at least
  static constexpr int kMaxMatch = 32;   // and at most
  static constexpr int kMaxPlaces = 24;  // that vote, the latest ones

  /// `tokens`: that it holds, at most.
  explicit RecallRing(std::size_t tokens);
  static std::int64_t bytes_of(std::size_t tokens);

  /// Adds a text, except parts of kKnown tokens or more that it already has.
  void learn(std::span<const std::int32_t> text);
  /// The continuation that most places agree on, in `out`; returns the length of the match, 0 for none.
  int recall(std::span<const std::int32_t> text, std::vector<std::int32_t>& out, std::size_t most) const;
  /// Its tokens from the oldest to the newest; -1 between two texts.
  std::vector<std::int32_t> texts() const;
  /// One token more, or the end of a text.
  void append(std::int32_t token);

 private:
  static constexpr std::size_t kKnown = 64;
  static constexpr double kMinChance = 0.25;

  static std::size_t hash(const std::int32_t* gram);
  std::int32_t at(std::int64_t position) const {
    return ring_[static_cast<std::size_t>(position) % ring_.size()];
  }
  bool holds(std::int64_t position) const {
    return position >= 0 && position < end_ && position + std::ssize(ring_) > end_;
  }
  std::size_t known_from(std::span<const std::int32_t> text) const;
  int match_before(std::int64_t end, std::span<const std::int32_t> text) const;

  std::vector<std::int32_t> ring_;    // [power of two] token of position p at p % size; -1 between texts
  std::vector<std::int64_t> before_;  // [ring] the place before this one with the same hash, or -1
  std::vector<std::int64_t> heads_;   // [power of two] the latest place after a gram of this hash, or -1
  std::int64_t end_ = 0;              // tokens ever appended
};

class RecallDrafter final : public Drafter {
 public:
  /// `bytes`: of all rings together; 0: nothing is learnt.
  RecallDrafter(int slots, std::int64_t bytes)
      : slots_(static_cast<std::size_t>(slots)), limit_bytes_(bytes) {}

  std::string_view name() const override { return "recall"; }
  Status open(int slot, std::int64_t position) override;
  void close(int slot) override;
  Status observe(int /*slot*/, std::span<const std::int32_t> /*tokens*/, bool /*prompt*/) override {
    return {};  // plan() is given the tokens
  }
  int plan(const DraftSlot& slot) override;
  int draft_cost(int /*depth*/) const override { return 0; }
  int context_class(int slot) const override;
  double first_guess(int context_class) const override;
  Status propose(std::span<DraftSlot*> slots, std::span<std::int32_t> round_tokens) override;
  void learn(std::span<const std::int32_t> tokens, std::uint64_t owner) override;

  /// Texts learnt since the start.
  std::int64_t learnt() const { return learnt_; }
  /// All texts of all users (drafters/recall_memory.cpp). False on a short write.
  bool write_to(ByteSink& sink) const;
  /// Replaces all texts. kCorrupt if these bytes are not such texts of a model with this vocabulary;
  /// the old texts then stay.
  Status read_from(ByteSource& source, int vocabulary);

 private:
  struct SlotState {
    int match = 0;
    std::vector<std::int32_t> continuation;
  };
  struct User {
    std::uint64_t owner = 0;
    RecallRing ring;
  };
  std::size_t ring_tokens() const;
  User* find(std::uint64_t owner);

  static constexpr int kUsers = 8;                 // rings, at most
  static constexpr std::size_t kMinTokens = 1024;  // of a ring

  std::vector<SlotState> slots_;
  std::int64_t limit_bytes_;
  std::int64_t learnt_ = 0;
  std::list<User> users_;  // the most recently active one is first
};

}  // namespace ft
