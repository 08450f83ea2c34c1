// Snapshots of sequences by their tokens, so that a prompt with the same prefix as an earlier one does not
// compute it again. A radix tree over token blocks: an edge is kBlockRows tokens, found by their xxh3 and
// then compared. A node keeps the snapshots whose minimum length ends in its block, each with the tokens
// that follow up to its maximum length. Exact: a continued sequence has the bits of a cold one (the row
// rule). When the bytes, the slots or the blocks are used up, snapshots that crowd within a conversation go
// first and the least recently used ones next (prefix_cache/eviction.cpp). A running request never waits
// for a block, because snapshots have a separate budget (SnapshotRoom). Tiers below it
// (prefix_cache/cache_tier.h) get the snapshots too: the machine's memory for those that leave a device, a
// folder for those that must survive a restart. Each snapshot records the owners of its prompts, so that a
// caller sees only its own hits (prefix_cache/cache_owner.h).
// Owner: sched/scheduler.h. Thread: the engine thread. Cost: find is O(prompt); store copies one recurrent
// state. Errors: a snapshot that does not fit is dropped silently.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "prefix_cache/cache_owner.h"
#include "prefix_cache/cache_report.h"
#include "prefix_cache/cache_tier.h"
#include "speculation/snapshot.h"

namespace ft {

/// The blocks of the drafter's memory, if it has any.
inline std::span<const std::int32_t> draft_blocks_of(const Snapshot& snapshot) {
  return snapshot.draft ? snapshot.draft->blocks() : std::span<const std::int32_t>();
}

class PrefixCache {
 public:
  /// A shorter prefix is not worth the copy of a state.
  static constexpr std::int64_t kMinTokens = 8;

  /// Without room or bytes it stays empty. The tiers, the fastest first, must outlive it.
  PrefixCache(const SnapshotRoom& room, std::int64_t limit_bytes, std::vector<CacheTier*> tiers = {},
              CacheShare share = CacheShare::kSpeed);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Found {
    PrefixHit hit;            // its snapshot is null for a miss
    std::int64_t shared = 0;  // tokens of the prompt, in whole blocks, that an earlier prompt shares
    std::int64_t own = 0;     // the same, of the user's earlier prompts
    std::int64_t shown = 0;   // the part of hit.length that the user may see
  };
  /// The longest snapshot whose tokens begin `prompt` and leave at least its last token. With `drafts`,
  /// only snapshots with the drafter's memory. A file is read first if it pays, given that a prompt
  /// token costs `row_ms` to compute (0: unknown); `alone`: no answer waits meanwhile. Valid until the next
  /// store or clear.
  Found find(std::span<const std::int32_t> prompt, bool drafts, double row_ms = 0, bool alone = false,
             const CacheUser& user = {});

  /// The place of a stored sequence: at the end of a prompt, of its answer, where another sequence diverges,
  /// or within a long prompt. Tiers do not keep the last kind.
  enum class Place { kPrompt, kAnswer, kParting, kWithin };
  /// Stores what `take` returns for the sequence of `tokens`, after making room. Does not call `take` if an
  /// equal snapshot is here or the snapshot can never fit. True if it holds something new, or something that
  /// was not the user's before.
  bool store(std::span<const std::int32_t> tokens, bool drafts, const std::function<Result<Snapshot>()>& take,
             Place place = Place::kPrompt, const CacheUser& user = {});
  void clear();
  /// Drops the snapshots that belong to this owner alone.
  void clear(std::uint64_t owner);

  /// Tokens between two snapshots within a long prompt at this place, `least` at its beginning: a prompt
  /// that is edited there recomputes at most a twentieth of the tokens before it. Larger steps are
  /// multiples of smaller ones.
  static std::int64_t step_at(std::int64_t place, std::int64_t least);

  bool enabled() const { return limits_.snapshots > 0; }
  CacheReport report() const;
  /// Any thread may read it.
  const CacheLedger& ledger() const { return ledger_; }

 private:
  struct Node;
  struct Entry {
    std::shared_ptr<const Snapshot> snapshot;  // shared, and kept, while it is being written
    std::string file;                          // its name in the tiers
    OwnerSet owners;
    std::vector<std::int32_t> tail;  // tokens from its node's block on, up to high()
    Node* node = nullptr;
    std::int64_t depth = 0;  // tokens before `tail`
    Place place = Place::kPrompt;
    std::int64_t passed = 0;  // the lookup that last found it in a prompt, perhaps on the way to a longer one

    std::int64_t high() const { return snapshot->high(); }
    /// Whether this entry also serves every prompt that the other one serves.
    bool serves(const Entry& other) const { return snapshot->draft || !other.snapshot->draft; }
  };
  using Entries = std::list<Entry>;  // most recently used first
  struct Node {
    Node* parent = nullptr;
    std::uint64_t hash = 0;
    std::vector<std::int32_t> tokens;  // of the edge to it, kBlockRows; empty for the root
    std::unordered_multimap<std::uint64_t, std::unique_ptr<Node>> children;
    std::vector<Entries::iterator> entries;
    std::vector<std::pair<std::uint64_t, int>> owned;  // by owner: its entries here and in all below
    bool has_of(std::uint64_t owner) const {
      return std::ranges::any_of(owned, [owner](const auto& one) { return one.first == owner; });
    }
  };
  /// How many snapshots hold each block of a pool.
  struct BlockUse {
    std::vector<int> owners;
    std::int64_t used = 0;
    /// How many of them would be free without this owner.
    std::int64_t alone(std::span<const std::int32_t> blocks) const;
    void add(std::span<const std::int32_t> blocks);
    void remove(std::span<const std::int32_t> blocks);
  };

  /// A snapshot to be stored, and its owners.
  struct Offer {
    std::span<const std::int32_t> tokens;
    bool drafts = false;
    Place place = Place::kPrompt;
    OwnerSet owners;
    Node* root = nullptr;
    bool counts_if_owned = false;  // a snapshot that only becomes the owners' is something new
  };
  Node& root_of(std::uint64_t owner) { return roots_[share_ == CacheShare::kNone ? owner : 0]; }
  Found search(std::span<const std::int32_t> prompt, bool drafts, const CacheUser& user);
  void claim(std::span<const std::int32_t> prompt, const Found& found, const CacheUser& user);
  bool fetch(CacheTier& tier, std::span<const std::int32_t> prompt, bool drafts, std::int64_t known,
             double row_ms, bool alone, const CacheUser& user);
  bool put(const Offer& offer, const std::function<Result<Snapshot>()>& take);
  bool own(Entries::iterator entry, const OwnerSet& owners);
  bool disown(Entry& entry, std::uint64_t owner);
  void count_owned(Node* node, std::uint64_t owner, int more) const;
  void to_tiers(Entry& entry, const Offer& offer);
  static Node* child(const Node& node, std::span<const std::int32_t> block);
  Node* grow(Node* root, std::span<const std::int32_t> path);
  void prune(Node* node);
  void use(Entries::iterator entry);
  Entries::iterator known(const Offer& offer);
  void insert(const Offer& offer, Snapshot snapshot);
  void evict(Entries::iterator entry);
  bool evict_one(Place for_place);
  Entries::iterator holder_of_blocks();
  struct Crowded {
    Entries::iterator entry;
    double loss = 1;  // the share of a prompt's tokens to be computed again without it, at most
  };
  Crowded most_crowded();
  /// Null without one; `near` is false if the search ended before the beginning.
  struct Before {
    const Entry* entry = nullptr;
    bool near = true;
  };
  static Before before(const Entry& entry);
  static std::int64_t end_after(const Entry& entry);
  static bool passed_by(const Entry& answer);
  bool blocks_over() const {
    return blocks_.used > limits_.blocks || draft_blocks_.used > limits_.draft_blocks;
  }
  std::int64_t bytes() const;
  bool over() const;

  const SnapshotRoom limits_;
  const std::int64_t limit_bytes_;
  const std::vector<CacheTier*> tiers_;
  const CacheShare share_;
  Entries entries_;
  std::map<std::uint64_t, Node> roots_;  // by owner with CacheShare::kNone, else one
  std::int64_t nodes_ = 0, leaves_ = 0;
  BlockUse blocks_, window_blocks_, draft_blocks_;
  CacheReport counts_;
  CacheLedger ledger_;
};

}  // namespace ft
