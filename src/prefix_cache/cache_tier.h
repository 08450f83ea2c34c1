// A tier below the prefix cache's snapshots: files of snapshots (prefix_cache/cache_file.h) in a folder, so
// that a restart begins warm, or in this machine's memory, for a device whose own memory is small
// (prefix_cache/cache_store.h). Rows that snapshots share are stored once (prefix_cache/shared_rows.h). The
// cache offers each stored snapshot. One thread writes it as NAME.part straight from the snapshot, syncs and
// renames, so a killed program leaves only whole files; the newest snapshot first. The engine never waits
// when it stores; if the backlog has no room, its oldest snapshots are not written. If the tier has a
// longer prefix of a prompt than the snapshots, the engine thread may read it. Reading must take less time
// than computing it and, while other answers run, less than kMaxLoadMs. A file that is damaged, or of
// another model, backend or program, is removed, counted and logged. The least recently used files are
// removed when the budget is used up. One process at a time has a folder (a lock). Other files in it are
// left alone. Owner: sched/engine.h, or a test; it must end before the decoder. Thread: the engine thread;
// report() and flush() any; a separate one writes. Errors: from open() and start(); later ones are lines in
// the log, and serving continues without the tier.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "prefix_cache/cache_file.h"
#include "prefix_cache/cache_owner.h"
#include "prefix_cache/cache_report.h"
#include "prefix_cache/shared_rows.h"
#include "speculation/snapshot.h"

namespace ft {

struct CacheTierOptions {
  std::string directory;  // of the files; empty: they are in memory
  bool numbered = false;  // if another process has it: its name with -2, -3 and so on to kMaxNumbered
  std::int64_t limit_bytes = std::int64_t{4096} << 20;
  std::string source;       // inputs of a snapshot's bits, besides the decoder: weights, program
  double rest_ms = 60'000;  // pause after a failed write until the next try
};

class CacheTier {
 public:
  /// Fewer tokens than this are recomputed, not written or read.
  static constexpr std::int64_t kMinTokens = 64;
  /// The maximum time that running answers may wait for a file.
  static constexpr double kMaxLoadMs = 3000;
  static constexpr double kMaxLoadAloneMs = 60'000;  // where none runs
  static constexpr int kMaxNumbered = 16;
  static constexpr std::size_t kMaxWaiting = 8;  // snapshots that the writer has not yet written
  /// How long the destructor writes snapshots that still wait.
  static constexpr double kLastWritesMs = 5000;

  /// Makes the folder if it is absent, takes its lock and checks that it can be written. kIo with the next
  /// step if it cannot; kBusy if another process has it.
  static Result<std::unique_ptr<CacheTier>> open(const CacheTierOptions& options);
  ~CacheTier();
  CacheTier(const CacheTier&) = delete;
  CacheTier& operator=(const CacheTier&) = delete;

  /// Reads the headers of all files and starts the writer. Call it once. The decoder must outlive the folder.
  Status start(const Snapshots& snapshots);

  /// Queues the snapshot of these tokens for writing, if the tier does not have it. Until then the snapshot
  /// is shared: the caller may drop it, but must keep the decoder. Returns the file's name, for used(). The
  /// file records only the first owner; the others are known until the program ends.
  std::string offer(std::span<const std::int32_t> tokens, const std::shared_ptr<const Snapshot>& snapshot,
                    const OwnerSet& owners);
  /// The file has one more owner.
  void own(const std::string& name, std::uint64_t owner);
  /// Releases the snapshots that have been written.
  void collect();

  struct Match {
    std::string name;
    std::vector<std::int32_t> tokens;  // of the whole snapshot, [high]
    std::int64_t length = 0;           // how many of them match the prompt's start
    OwnerSet owners;
    double max_ms = kMaxLoadMs;  // that reading may take
  };
  /// The file that serves the most of `prompt` beyond its first `known` tokens, if reading it pays. Computing
  /// a token takes `row_ms` (0: unknown); `alone`: no answer waits meanwhile. `only`: files of this owner.
  std::optional<Match> find(std::span<const std::int32_t> prompt, bool drafts, std::int64_t known,
                            double row_ms, bool alone = false, std::optional<std::uint64_t> only = {});
  /// kCorrupt: the file was unusable and has been removed.
  Result<Snapshot> load(const Match& match);
  void used(const std::string& name);
  /// Empty if the files are in memory.
  const std::string& directory() const { return options_.directory; }
  /// Removes all files and all waiting snapshots; afterwards it shares no snapshot.
  void clear();
  /// Removes the files and waiting snapshots that belong to this owner alone.
  void clear(std::uint64_t owner);

  /// Waits until no snapshot waits to be written.
  void flush();
  CacheTierReport report() const;

 private:
  struct File {
    std::string name;
    CachePlace place;
    OwnerSet owners;
    std::int64_t bytes = 0;           // its own
    std::vector<std::string> shared;  // files of rows that it needs, which it holds
    std::int64_t used = 0;            // order of last uses
    std::int64_t touched_ns = 0;      // when the file's time was last set
  };
  struct Offered {
    std::string name;
    std::vector<std::int32_t> tokens;
    std::shared_ptr<const Snapshot> snapshot;
    std::int64_t bytes = 0;  // approximate
    OwnerSet owners;
  };
  struct Dropped {
    std::int64_t damaged = 0, foreign = 0;
    std::string first;  // the first damaged file, and why
  };

  explicit CacheTier(CacheTierOptions options);
  Status take_lock();
  Status read_heads();
  void check_file(const std::string& name, Dropped& dropped);
  std::string path(const std::string& name) const { return options_.directory + "/" + name; }
  /// Its name in messages.
  std::string title() const;
  std::int64_t size_of(const Snapshot& snapshot, std::size_t tokens) const;
  bool takes(const std::string& name, std::int64_t bytes);
  void write_offered();
  void write(const Offered& offered, const Snapshot& snapshot, std::int64_t generation);
  void let_go(std::int64_t bytes);
  void give_up_waiting(std::optional<std::uint64_t> owner = {});
  bool worth(const File& file, std::int64_t tokens, double row_ms, double max_ms);
  Result<Snapshot> read(const Match& match, std::int64_t& bytes, std::string& bad_rows);
  void add(File file);
  void forget(const std::string& name);
  void remove(std::span<const std::string> names);
  void make_room(std::int64_t bytes);
  void note_failure(const std::string& why);
  Error drop(const std::string& name, const std::string& bad_rows, const std::string& why);

  const CacheTierOptions options_;
  const std::unique_ptr<CacheStore> store_;
  SharedRows rows_;
  int lock_ = -1;
  const Snapshots* snapshots_ = nullptr;
  std::string identity_;
  double byte_ms_ = 1 / 5e5;       // of reading; each load measures it
  std::atomic<bool> stop_{false};  // stops the write in progress

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // The mutex_ guards these.
  std::unordered_map<std::string, File> files_;
  std::unordered_multimap<std::uint64_t, const File*> by_place_;  // by CachePlace::before
  std::deque<Offered> waiting_;
  std::vector<std::shared_ptr<const Snapshot>> done_;  // the engine thread releases them
  std::string writing_;                                // name of the file in progress; empty: none
  OwnerSet writing_owners_;                            // only the writer changes them
  std::shared_ptr<const Snapshot> sharing_;            // the snapshot that the writer reads
  bool stopping_ = false;
  std::int64_t rest_until_ns_ = 0;
  std::int64_t bytes_ = 0, waiting_bytes_ = 0, clock_ = 0, generation_ = 0;
  std::int64_t loads_ = 0, written_ = 0, dropped_ = 0;
  bool failing_ = false;  // the writer's: the last write failed and was logged
  std::thread writer_;
};

}  // namespace ft
