// Snapshots of sequences by their tokens, so that a prompt which begins like an earlier one does not compute
// that beginning again. A radix tree over token blocks: a step along an edge is kBlockRows tokens, found by
// their xxh3 and compared. A node keeps the snapshots whose shortest past ends in its block, each with the
// tokens that follow up to its longest. Exact: a continued sequence has the bits of a cold one (the row
// rule). The least recently used go when the bytes, the slots or the blocks are used up; a running request
// never waits for a block, since snapshots have a share of their own (SnapshotRoom). With a folder
// (sched/cache_folder.h) they are written there too, and come back after a restart. Owner: sched/scheduler.h.
// Thread: the engine thread. Cost: find is O(prompt), store copies one recurrent state.
// Errors: what cannot be stored is not, and counted nowhere.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "sched/cache_folder.h"
#include "sched/engine_status.h"
#include "spec/decoder.h"

namespace ft {

class PrefixCache {
 public:
  /// A shorter beginning is not worth the copy of a state.
  static constexpr std::int64_t kLeastTokens = 8;

  /// Without room or bytes it never holds anything. `folder`, if given, is its second tier and outlives it.
  PrefixCache(const SnapshotRoom& room, std::int64_t limit_bytes, CacheFolder* folder = nullptr);
  ~PrefixCache();
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;

  struct Found {
    Beginning beginning;      // snapshot null: a miss
    std::int64_t shared = 0;  // first tokens of the prompt, in whole blocks, that some prompt before had too
  };
  /// The longest snapshot whose tokens begin `prompt` and leave at least its last one. With `drafts` only
  /// those that know what a drafter needs. One in the folder is read first, if a token of a prompt costs
  /// `row_ms` (0: unknown) and that pays. Valid until the next store or clear.
  Found find(std::span<const std::int32_t> prompt, bool drafts, double row_ms = 0);

  /// Keeps what `take` gives for the sequence of `tokens`, making room first; does not ask for it if the same
  /// is here already or can never fit. Whether it holds something new.
  bool store(std::span<const std::int32_t> tokens, bool drafts,
             const std::function<Result<Snapshot>()>& take);
  void clear();

  bool enabled() const { return limits_.snapshots > 0; }
  CacheReport report() const;

 private:
  struct Node;
  struct Entry {
    std::shared_ptr<const Snapshot> snapshot;  // shared while it is being written: then it stays
    std::string file;                          // its name in the folder
    std::vector<std::int32_t> tail;            // tokens from its node's block on, up to high()
    Node* node = nullptr;
    std::int64_t depth = 0;  // tokens before `tail`
  };
  using Entries = std::list<Entry>;  // the most recently used first
  struct Node {
    Node* parent = nullptr;
    std::uint64_t hash = 0;
    std::vector<std::int32_t> tokens;  // of the edge to it, kBlockRows; empty: the root
    std::unordered_multimap<std::uint64_t, std::unique_ptr<Node>> children;
    std::vector<Entries::iterator> entries;
  };
  /// How many snapshots hold each block of a pool.
  struct BlockUse {
    std::vector<int> owners;
    std::int64_t used = 0;
    void add(std::span<const std::int32_t> blocks);
    void remove(std::span<const std::int32_t> blocks);
  };

  Found search(std::span<const std::int32_t> prompt, bool drafts);
  bool fetch(std::span<const std::int32_t> prompt, bool drafts, std::int64_t known, double row_ms);
  static Node* child(const Node& node, std::span<const std::int32_t> block);
  Node* grow(std::span<const std::int32_t> path);
  void prune(Node* node);
  void use(Entries::iterator entry);
  bool known(std::span<const std::int32_t> tokens, bool drafts);
  void insert(std::span<const std::int32_t> tokens, Snapshot snapshot);
  void evict(Entries::iterator entry);
  bool evict_oldest();
  std::int64_t bytes() const;
  bool over() const;

  const SnapshotRoom limits_;
  const std::int64_t limit_bytes_;
  CacheFolder* const folder_;
  Entries entries_;
  Node root_;
  std::int64_t nodes_ = 0, leaves_ = 0;
  BlockUse blocks_, draft_blocks_;
  CacheReport counts_;
};

}  // namespace ft
