// The prefix cache's second tier: a folder of snapshots as files (sched/cache_file.h), so that a restart
// begins warm. What the cache stores is offered; one thread writes it as NAME.part, reads the snapshot where
// it stands, syncs, renames: whatever kills the program leaves whole files. The engine waits for no disk when
// it stores; a snapshot for which the backlog has no room is not written. When a prompt has a longer
// beginning here than in memory, the engine thread reads it, if that takes less time than computing it and
// kMostLoadMs. A file that is damaged, or of another model, backend or program, is removed and counted, and a
// line says so. The least recently used go when the budget is used up. One process at a time has a folder (a
// lock). Other files in it are left alone. Owner: sched/engine.h, or a test; must end before the decoder.
// Thread: the engine thread; report() and flush() any; one of its own that writes. Cost: see each. Errors: of
// open() and start(); later ones are lines in the log, and serving goes on without the folder.
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

#include "sched/cache_file.h"
#include "sched/engine_status.h"
#include "spec/decoder.h"

namespace ft {

struct CacheFolderOptions {
  std::string directory;  // empty: none
  std::int64_t limit_bytes = std::int64_t{4096} << 20;
  std::string source;       // what the bits of a snapshot depend on beside the decoder: weights, program
  double rest_ms = 60'000;  // after a file that could not be written, until the next try
};

class CacheFolder {
 public:
  /// Fewer tokens are computed again rather than written or read.
  static constexpr std::int64_t kLeastTokens = 64;
  /// The longest that running answers may wait for a file.
  static constexpr double kMostLoadMs = 3000;
  static constexpr std::size_t kMostWaiting = 8;  // snapshots that the writer has not written yet
  /// How long the destructor writes what still waits.
  static constexpr double kLastWritesMs = 5000;

  /// Makes the folder if it is absent, takes its lock and sees that it can be written. kIo with what to do if
  /// not, kBusy if another process has it.
  static Result<std::unique_ptr<CacheFolder>> open(const CacheFolderOptions& options);
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  /// Reads the heads of all files and starts the writer. Once. The decoder must outlive the folder.
  Status start(Decoder& decoder);

  /// Has the snapshot of these tokens written, soon, if it is not here. Until then it is shared: its owner
  /// may let go of it, but not of the decoder. Returns the file's name, for used().
  std::string offer(std::span<const std::int32_t> tokens, const std::shared_ptr<const Snapshot>& snapshot);
  /// Lets go of the snapshots that have been written.
  void collect();

  struct Match {
    std::string name;
    std::vector<std::int32_t> tokens;  // of the whole snapshot, [high]
    std::int64_t length = 0;           // how many of them begin the prompt
  };
  /// The file that serves most of `prompt` beyond its first `known` tokens, if that is worth reading it; a
  /// token costs `row_ms` to compute (0: unknown).
  std::optional<Match> find(std::span<const std::int32_t> prompt, bool drafts, std::int64_t known,
                            double row_ms);
  /// kCorrupt: the file was of no use and is gone.
  Result<Snapshot> load(const Match& match);
  void used(const std::string& name);
  /// Removes all files and what waits; afterwards it shares no snapshot.
  void clear();

  /// Waits until nothing waits to be written.
  void flush();
  /// Adds the disk's part.
  void report(CacheReport& report) const;

 private:
  struct File {
    std::string name;
    CachePlace place;
    std::int64_t bytes = 0;
    std::int64_t used = 0;        // order of last uses
    std::int64_t touched_ns = 0;  // when the file's time was set last
  };
  struct Offered {
    std::string name;
    std::vector<std::int32_t> tokens;
    std::shared_ptr<const Snapshot> snapshot;
    std::int64_t bytes = 0;  // about
  };
  struct Dropped {
    std::int64_t damaged = 0, foreign = 0;
    std::string first;  // damaged one, and why
  };

  explicit CacheFolder(CacheFolderOptions options) : options_(std::move(options)) {}
  Status take_lock();
  Status read_heads();
  void judge(const std::string& name, Dropped& dropped);
  std::string path(const std::string& name) const { return options_.directory + "/" + name; }
  std::int64_t size_of(const Snapshot& snapshot, std::size_t tokens) const;
  bool takes(const std::string& name, std::int64_t bytes);
  void write_offered();
  void write(const Offered& offered, const Snapshot& snapshot, std::int64_t generation);
  void let_go(std::int64_t bytes);
  void give_up_waiting();
  bool worth(const File& file, std::int64_t tokens, double row_ms);
  Result<Snapshot> read(const Match& match, std::int64_t& bytes);
  void add(File file);
  void forget(const std::string& name);
  void make_room(std::int64_t bytes);
  void note_failure(const std::string& why);
  Error drop(const std::string& name, const std::string& why);

  const CacheFolderOptions options_;
  int lock_ = -1;
  Decoder* decoder_ = nullptr;
  std::string identity_;
  double byte_ms_ = 1 / 5e5;       // of reading; measured by each load
  std::atomic<bool> stop_{false};  // what is being written is not wanted any more

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_.
  std::unordered_map<std::string, File> files_;
  std::unordered_multimap<std::uint64_t, const File*> by_place_;  // by CachePlace::before
  std::deque<Offered> waiting_;
  std::vector<std::shared_ptr<const Snapshot>> done_;  // for the engine thread to let go of
  std::string writing_;                                // name of what is being written; empty: nothing
  std::shared_ptr<const Snapshot> sharing_;            // that the writer reads
  bool stopping_ = false;
  std::int64_t rest_until_ns_ = 0;
  std::int64_t bytes_ = 0, waiting_bytes_ = 0, clock_ = 0, generation_ = 0;
  std::int64_t loads_ = 0, written_ = 0, dropped_ = 0;
  bool failing_ = false;  // the writer's: the last file could not be written, and that was said
  std::thread writer_;
};

}  // namespace ft
