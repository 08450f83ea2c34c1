// The ranks of one process: a thread for each but the first, which is the caller's, and what they send each
// other. A rank that fails stops the others; one that does not answer is waited for a bounded time, then the
// group is lost. Owner: the backend of the ranks. Thread: the engine thread. Cost: a step allocates nothing
// and takes no lock; a waiting rank spins, then yields, then sleeps. Errors: BackendLost and the errors of
// the work; the constructor throws std::system_error if the machine refuses a thread.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "backends/split/exchange.h"
#include "backends/split/ranks.h"

namespace ft::split {

struct RankGroupOptions {
  std::unique_ptr<Wire> wire = nullptr;  // null: memory
  int patience_ms = 60000;               // of a rank that waits for another one
};

class RankGroup {
 public:
  /// `names`: of the ranks, for sentences.
  RankGroup(std::vector<std::string> names, RankGroupOptions options);
  /// Waits for ranks that still work.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int ranks() const { return static_cast<int>(names_.size()); }
  /// Exchanges have at most `values` values from each rank.
  void reserve(std::size_t values) { mailboxes_.reserve(values); }

  /// Calls work(rank) once on each rank at the same time. Throws what the first rank that failed threw. After
  /// BackendLost a rank may still be in `work`, until settle() returns.
  void run(const std::function<void(int)>& work);

  /// Waits until no rank works any more.
  void settle() const;

  /// Inside work: the next exchange. Sends `sent` [rows, own columns] and returns when `made` [rows, width]
  /// has the columns of all ranks, each as `exchange.from` lists them.
  void exchange(int rank, const RankExchange& exchange, int rows, std::span<const float> sent,
                std::span<float> made);

 private:
  /// The rank's step ends, because another one failed.
  struct Stopped final : std::exception {};

  void serve(int rank);
  void work(int rank);
  void restart();
  /// Returns when ready() does; false after the patience or, if `stops`, when the group stops.
  template <class Ready>
  bool wait(const Ready& ready, bool stops) const;
  void receive(int rank, int from, const RankExchange& exchange, int rows, std::span<float> made);

  std::vector<std::string> names_;
  std::unique_ptr<Wire> wire_;
  int patience_ms_;
  mutable Mailboxes mailboxes_;
  std::vector<std::uint32_t> numbers_;  // by rank: its last exchange
  const std::function<void(int)>* work_ = nullptr;
  std::string lost_;  // the reason; empty: not lost
  std::exception_ptr failure_;
  std::atomic<bool> stopped_{false};    // set by the first rank that fails, which then writes failure_
  std::atomic<bool> explained_{false};  // failure_ is there
  std::atomic<int> running_{0};         // threads with work
  std::atomic<std::uint32_t> task_{0};
  std::atomic<bool> ends_{false};
  std::vector<std::thread> threads_;
};

}  // namespace ft::split
