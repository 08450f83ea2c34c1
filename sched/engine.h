// The engine thread: it alone runs programs. It admits requests into slots, adds prompt chunks, runs rounds
// for all slots that are ready, turns tokens into events and closes what has ended or was cancelled. It
// measures rounds and feeds the cost model that depth is chosen by. The only place that catches what a
// backend throws. It waits for no reader: a request with EngineOptions::unread_events in its box pauses while
// the others go on; one that stays so for unread_ms is cancelled (and a sentence), and its slot serves the
// next. Owner: a program's main or the server; destruction takes a step at most and ends every ticket.
// Thread: submit from any; the engine has its own. Cost: idle it sleeps. Errors: start returns those of
// Decoder::make; a request that cannot be admitted ends with kError and a sentence.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "sched/request.h"
#include "text/answer.h"
#include "text/tokenizer.h"

namespace ft {

struct EngineOptions {
  DecoderOptions decoder;
  std::size_t queue = 256;  // requests that may wait
  std::size_t unread_events = kMailboxEvents;
  double unread_ms = 60'000;  // a full box's patience
};

class Engine {
 public:
  /// Returns when the costs of rounds have been measured. All references must outlive the engine.
  static Result<std::unique_ptr<Engine>> start(Backend& backend, const Model& model,
                                               const Tokenizer& tokenizer, const EngineOptions& options);
  ~Engine();

  /// kExhausted if the queue is full.
  Result<Ticket> submit(Request request);

  /// For measuring: requests with DrafterKind::kForced draft `recorded` spoilt by `schedule`. Only while
  /// idle.
  void force(std::vector<double> schedule, std::uint64_t seed, std::vector<std::int32_t> recorded);

  const Decoder& decoder() const { return *decoder_; }
  int vocabulary() const { return decoder_->model().config.vocab_size; }

 private:
  struct Job;
  Engine(std::unique_ptr<Decoder> decoder, const Tokenizer& tokenizer, const EngineOptions& options);
  void loop();
  void step();
  void admit();
  bool paused(Job& job);
  bool wait_for_work();
  void prefill(Job& job);
  void round();
  void retire();
  void end(Job& job, Finish finish, std::string error);
  Report report_of(const Job& job) const;
  Status start_slot(Job& job);
  bool take_token(Job& job, std::int32_t token, std::span<const float> logits, bool drafted);
  static void post_pieces(Job& job, std::vector<AnswerEvent> pieces);

  std::unique_ptr<Decoder> decoder_;
  const Tokenizer& tokenizer_;
  const std::size_t queue_, unread_events_;
  const double unread_ms_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Job>> waiting_;  // under mutex_
  bool stopping_ = false;                     // under mutex_
  bool calibrated_ = false;                   // under mutex_
  std::vector<std::unique_ptr<Job>> running_;
  std::vector<Slot*> ready_;
  std::thread thread_;
};

}  // namespace ft
