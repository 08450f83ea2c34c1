// The engine's work in one step: it closes cancelled requests, gives one waiting prompt a chunk, runs a
// round for all ready requests, keeps snapshots of computed prompts, and ends finished requests. It never
// waits, and its clock is a parameter, so a test can drive it step by step. The shortest prompt goes first,
// but one that was passed over kPatience times goes next. Short prompts may share a step (prompts.cpp). While
// others decode, a chunk takes about as long as a round or kGapMs. Rounds then get kRoundsPerPrompt of its
// time before the next chunk, so running answers keep half their speed; they get less if more prompts wait
// than answers run. If no other request decodes, a chunk takes at most kChunkMs, so that a cancel is seen
// soon. This is the only place that catches errors of a target's step: the requests of that step end with
// the sentence, and all requests end if the backend is lost. Readers get a step's events at its end. Where a
// device computes, they get them while it computes the next step, which then begins sooner. Owner:
// sched/engine.h, or a simulation. Thread: the engine thread. Errors: end the request that has them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "prefix_cache/prefix_cache.h"
#include "sched/engine_status.h"
#include "sched/job.h"
#include "text/thinking_marks.h"
#include "text/tokenizer.h"

namespace ft {

struct SchedulerOptions {
  double unread_ms = 60'000;           // how long a mailbox may stay full
  std::int64_t snapshot_tokens = -1;   // between the first snapshots of a long prompt; -1: default; 0: none
  std::function<double()> now_ms;      // empty: the machine's steady clock
  std::vector<CacheTier*> tiers = {};  // of the prefix cache, the fastest first; they outlive the scheduler
  CacheShare cache_share = CacheShare::kSpeed;
};

class Scheduler {
 public:
  static constexpr int kPatience = 3;
  static constexpr double kChunkMs = 400;
  static constexpr double kGapMs = 20;
  static constexpr double kRoundsPerPrompt = 1.7;  // a factor of time: a round after a chunk has cold caches
  static constexpr int kMinChunk = 16;             // rows

  /// The references must outlive the scheduler.
  Scheduler(Decoder& decoder, const Tokenizer& tokenizer, const ChatFormat& format, SchedulerOptions options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  bool has_free_slot() const;
  bool idle() const { return running_.empty(); }
  /// True if all requests wait for their readers.
  bool stalled() const;
  /// Gives a request a slot, or ends it with the reason.
  void admit(std::unique_ptr<Job> job);
  void step();
  /// Ends all running requests; computed states stay in the cache.
  void cancel_all();
  /// Why no step can run any more: all requests end, none is admitted. Empty while the backend works.
  const std::string& lost() const { return status_.lost; }
  /// Ends a request that never had a slot.
  void end_unstarted(Job& job, Finish finish, Error error);

  PrefixCache& cache() { return cache_; }
  const PrefixCache& cache() const { return cache_; }
  /// Its part of the engine's status: everything but queue, waiting, requests, refused and draining.
  const EngineStatus& status();
  double now_ms() const { return options_.now_ms(); }

 private:
  Status start(Job& job);
  void watch(Job& job);
  void work();
  void lose_backend(const std::string& why);
  Job* next_prompt();
  bool decoding() const;
  double rounds_share() const;
  int step_rows() const;
  int chunk_rows(const Job& job, int rows) const;
  std::vector<Job*> sharing_step(Job& first, int rows) const;
  std::int64_t first_step() const;
  std::int64_t snapshot_step(std::int64_t done) const;
  void prefill(Job& job);
  void keep_prompt(Job& job);
  void note_row_ms(double row_ms);
  void round();
  void deliver();
  void note_round(Job& job, const SpeculationReport& before, double now);
  CacheUser user_of(const Job& job, bool owns = true) const;
  bool keep(Job& job, PrefixCache::Place place, bool owns = true);
  void retire();
  void end(Job& job, Finish finish, Error error);
  void count(const Job& job, const Event& event);
  Report report_of(const Job& job) const;
  static void score(Job& job);
  bool take_token(Job& job, std::int32_t token, std::span<const float> logits, std::string_view by);
  static void post_pieces(Job& job, std::vector<AnswerEvent> pieces);

  Decoder& decoder_;
  const Tokenizer& tokenizer_;
  const ThinkingMarks marks_;
  const SchedulerOptions options_;
  PrefixCache cache_;
  std::vector<std::unique_ptr<Job>> running_;
  std::vector<Slot*> ready_;
  std::vector<std::pair<Job*, SpeculationReport>> decoding_;  // and its report before the round
  bool device_computes_ = false;  // in the last round the host waited for a device
  double row_ms_ = 0;             // of a prompt's row beyond a step's fixed cost; 0: not measured yet
  double round_ms_ = 0;           // of the last round
  double prompt_debt_ms_ = 0;     // time that rounds must take before the next chunk, if others decode
  EngineStatus status_;
};

}  // namespace ft
