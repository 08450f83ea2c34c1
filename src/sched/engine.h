// The engine: a queue, a thread and the scheduler that the thread drives (sched/scheduler.h). Only this
// thread runs programs. It never waits for a reader: a request with EngineOptions::unread_events in its
// mailbox pauses while the others continue. If it stays paused for unread_ms, it is cancelled with a sentence
// and its slot serves the next. Owner: a program's main or the server; destruction takes at most one step and
// ends every ticket. Thread: submit, status, cache, clear_cache and drain from any; the engine has its own.
// Cost: it sleeps when idle; status and cache copy the last step's state. Errors: start: from Decoder::make,
// and before anything is allocated a model that does not fit (sched/admission.h); a request that
// cannot be admitted ends with kError and a sentence.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "sched/calibration/calibration_cache.h"
#include "sched/recall_file.h"
#include "sched/scheduler.h"

namespace ft {

struct EngineOptions {
  DecoderOptions decoder;   // cache_bytes there is the prefix cache's budget
  std::size_t queue = 256;  // requests that may wait beyond those that free slots will take
  std::size_t unread_events = kMailboxEvents;
  double unread_ms = 60'000;           // how long a mailbox may stay full
  std::int64_t memory_bytes = 0;       // limit for everything; 0: the machine's free memory
  bool weights_mapped = false;         // the backend maps packed weights, which may be larger than that
  std::int64_t snapshot_tokens = -1;   // SchedulerOptions::snapshot_tokens
  std::int64_t memory_tier_bytes = 0;  // of this machine, below the snapshots of a device; 0: none
  CacheTierOptions folder;             // the prefix cache's last tier, if it names a directory
  CacheShare cache_share = CacheShare::kSpeed;
  CalibrationCacheOptions costs;            // the calibration cache, if it names a file
  RecallFileOptions recall_file;            // texts of the drafter recall, if it names a file
  std::function<double()> now_ms;           // the clock, read by any thread; empty: the machine's steady one
  const ChatFormat* chat_format = nullptr;  // outlives the engine; null: the family's, without a template
};

class Engine {
 public:
  /// Returns when the calibration is done. All references must outlive the engine.
  static Result<std::unique_ptr<Engine>> start(Backend& backend, const Model& model,
                                               const Tokenizer& tokenizer, const EngineOptions& options);
  ~Engine();

  /// kExhausted with the numbers if the prompt leaves no room in a slot's context.
  Status fits(const Request& request) const;
  /// kExhausted if it does not fit, kBusy if the queue is full, kCancelled if the engine drains
  /// (status().draining) or has lost its backend (status().lost).
  Result<Ticket> submit(Request request);

  EngineStatus status() const;
  CacheReport cache() const;
  /// The contents and counts of the cache for one SlotOptions::owner, as if the others did not exist.
  CacheReport cache_of(std::uint64_t owner) const;
  /// The folder of the cache's last tier, with its number if it has one; empty if there is none.
  const std::string& cache_directory() const { return options_.folder.directory; }
  /// The source of the calibration at the start, as a word (sched/calibration/calibration_cache.h).
  const char* cost_source() const { return costs_.source(); }
  /// The memory reserved at the start.
  const MemoryReport& memory() const { return memory_; }
  /// Maximum tokens of a request, prompt and answer together. It is reserved for every slot, so it does not
  /// depend on the other requests.
  std::int64_t max_context_now() const { return decoder_->options().context; }
  /// Asks for an empty cache, which is empty at the end of the current step. Does not wait.
  void clear_cache();
  /// The same for snapshots that belong to this owner alone.
  void clear_cache_of(std::uint64_t owner);

  /// Admits no more requests and waits until every request has ended; those still running after `timeout_ms`
  /// are cancelled. True if none was cancelled. For a stop signal: the engine takes no requests afterwards.
  bool drain(double timeout_ms);

  /// For measuring: requests with SyntheticDrafter::kKind draft `recorded`, perturbed by `schedule`. Waits
  /// until no request runs.
  void force(std::vector<double> schedule, std::uint64_t seed, std::vector<std::int32_t> recorded);

  const Decoder& decoder() const { return *decoder_; }
  int vocabulary() const { return decoder_->model().facts.vocabulary; }

 private:
  Engine(std::unique_ptr<Decoder> decoder, std::unique_ptr<CacheTier> memory_tier,
         std::unique_ptr<CacheTier> folder, const MemoryReport& memory, const Tokenizer& tokenizer,
         const EngineOptions& options);
  void loop();
  bool wait_for_work();
  void admit();
  void end_waiting(bool all);
  void publish();
  bool over() const { return waiting_.empty() && idle_; }

  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<CacheTier> memory_tier_, folder_;  // null: there is none
  const EngineOptions options_;
  const MemoryReport memory_;
  CalibrationCache costs_;  // belongs to the engine thread; unchanged since calibrated_
  RecallFile recall_file_;  // belongs to the engine thread
  Scheduler scheduler_;     // belongs to the engine thread
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // The mutex_ guards these.
  std::deque<std::unique_ptr<Job>> waiting_;
  bool stopping_ = false, calibrated_ = false, draining_ = false, cancelling_ = false, clearing_ = false;
  bool idle_ = true;                        // no request has a slot or is about to get one
  std::vector<std::uint64_t> clearing_of_;  // owners
  std::int64_t requests_ = 0, refused_ = 0;
  EngineStatus status_;
  CacheReport cache_;
  std::thread thread_;
};

}  // namespace ft
