// What the engine does in one step: closes what was cancelled, gives one waiting prompt a chunk, runs a round
// for all requests that are ready, keeps snapshots of what was computed, ends what is over. It waits for
// nobody and reads no clock but the one it was given, so that a test can drive it step by step. Prompts go
// shortest first, but one that was passed over kPatience times goes next; while others decode, a chunk takes
// about as long as a round or kGapMs, and rounds get kRoundsPerPrompt of its time before the next one comes,
// so that running answers keep half their pace; alone it takes kChunkMs at most, so that a cancel is seen
// soon. The only place that catches what a target's step throws: the requests of that step end with the
// sentence, all requests do if the backend is lost. Owner: sched/engine.h, or a simulation. Thread: the
// engine thread. Cost: that of the steps. Errors: end the request that has them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sched/engine_status.h"
#include "sched/job.h"
#include "sched/prefix_cache.h"
#include "text/thinking_marks.h"
#include "text/tokenizer.h"

namespace ft {

struct SchedulerOptions {
  double unread_ms = 60'000;            // a full box's patience
  std::int64_t snapshot_tokens = 2048;  // of a long prompt between two snapshots
  std::function<double()> now_ms;       // empty: the machine's steady clock
  CacheFolder* folder = nullptr;        // the prefix cache's second tier; outlives the scheduler
};

class Scheduler {
 public:
  static constexpr int kPatience = 3;
  static constexpr double kChunkMs = 400;
  static constexpr double kGapMs = 20;
  static constexpr double kRoundsPerPrompt = 1.7;  // of time: a round behind a chunk finds its caches cold
  static constexpr int kLeastChunk = 16;           // rows

  /// The references must outlive it.
  Scheduler(Decoder& decoder, const Tokenizer& tokenizer, SchedulerOptions options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  bool has_free_slot() const;
  bool idle() const { return running_.empty(); }
  /// Nothing can be done before a reader reads.
  bool stalled() const;
  /// Takes a request into a slot, or ends it with the reason.
  void admit(std::unique_ptr<Job> job);
  void step();
  /// Ends all that run; what was computed stays in the cache.
  void cancel_all();
  /// Why no step can run any more; empty while the backend works. Requests are ended then, none is admitted.
  const std::string& lost() const { return status_.lost; }
  /// Ends a request that never had a slot.
  void end_unstarted(Job& job, Finish finish, std::string error);

  PrefixCache& cache() { return cache_; }
  /// Its part of the engine's: all but queue, waiting, requests, refused and draining.
  const EngineStatus& status();
  double now_ms() const { return options_.now_ms(); }

 private:
  Status start(Job& job);
  void watch(Job& job);
  void work();
  void lose_backend(const std::string& why);
  Job* next_prompt();
  bool decoding() const;
  int chunk_rows(const Job& job) const;
  void prefill(Job& job);
  void round();
  void note_round(Job& job, const SpeculationReport& before, double now);
  bool keep(Job& job);
  void retire();
  void end(Job& job, Finish finish, std::string error);
  void count(const Job& job, const Event& event);
  Report report_of(const Job& job) const;
  static void score(Job& job);
  bool take_token(Job& job, std::int32_t token, std::span<const float> logits, bool drafted);
  static void post_pieces(Job& job, std::vector<AnswerEvent> pieces);

  Decoder& decoder_;
  const Tokenizer& tokenizer_;
  const ThinkingMarks marks_;
  const SchedulerOptions options_;
  PrefixCache cache_;
  std::vector<std::unique_ptr<Job>> running_;
  std::vector<Slot*> ready_;
  std::vector<std::pair<Job*, SpeculationReport>> decoding_;  // and its report before the round
  double row_ms_ = 0;          // of a prompt's row beyond a step's fixed cost; 0: not measured yet
  double round_ms_ = 0;        // of the last round
  double prompt_debt_ms_ = 0;  // what rounds have to take before the next chunk, if others decode
  EngineStatus status_;
};

}  // namespace ft
