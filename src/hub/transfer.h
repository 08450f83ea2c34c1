// Fetches files of one commit into the cache: pieces over several connections, resumed where an earlier run
// ended, checked by their hash, then published and linked into the snapshot. It waits for another process
// that fetches the same file. Owner: the caller; the calling thread reports progress, the workers fetch.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "hub/cache.h"
#include "hub/client.h"
#include "hub/digest.h"
#include "hub/partial.h"

namespace ft::hub {

inline constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

struct TransferOptions {
  int connections = 8;        // at most
  int first_connections = 4;  // more follow while the rate grows
  std::int64_t piece_bytes = 64 * kMebibyte;
  std::int64_t save_every_ms = 1000;
};

class Transfer {
 public:
  /// All of them must outlive the transfer.
  Transfer(HubClient& client, Transport& transport, const HubCache& cache, const Repository& repository,
           std::string commit, TransferOptions options);
  ~Transfer();

  /// In this order, several at once. After an error or kCancelled the partial files are kept.
  Status run(const std::vector<RemoteFile>& files);

 private:
  struct Work;   // one file
  struct Task {  // a piece to fetch, or a file whose pieces are all there
    Work* work = nullptr;
    std::size_t piece = 0;
    bool closing = false;
  };
  enum class Received { kAll, kPart, kNoRange };

  // Which piece is next; all of it under mutex_.
  std::optional<Task> next(int worker);
  std::optional<Task> task_of(Work& work);
  Status begin(Work& work);
  void requeue(const Task& task, const Status& status, bool no_range);
  bool all_done() const;

  // Fetching one piece.
  void work(int worker);
  Status fetch(Connection& connection, const Task& task, bool& no_range);
  Result<Received> receive(Connection& connection, const Task& task, const ResolvedUrl& resolved,
                           Outcome& outcome);
  Result<ResolvedUrl> resolved_url(Connection& connection, Work& work);
  Status settle(const Task& task, const Outcome& outcome, RetryPolicy& retries);
  void save_sometimes(Work& work);

  // Ending a file.
  Status close(Work& work);
  Status follow(Work& work);
  Status damaged(Work& work, const std::string& found);
  Status publish(Work& work);

  void stop(const Status& status);
  void tell_progress();
  void adapt(std::int64_t now_ms);

  HubClient& client_;
  Transport& transport_;
  const HubCache& cache_;
  const Repository& repository_;
  const std::string commit_;
  const TransferOptions options_;
  const Pace& pace_;

  std::mutex mutex_;  // works_' phases and tasks, error_
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Work>> works_;
  Status error_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> allowed_;              // connections in use
  std::atomic<bool> too_many_{false};     // a connection stalled or was refused: fewer
  std::atomic<std::int64_t> fetched_{0};  // bytes over the network

  struct Sample {
    std::int64_t at_ms, bytes;
  };
  std::deque<Sample> samples_;
  std::int64_t adapted_ms_ = 0;
  double last_rate_ = 0;
  bool told_of_others_ = false;
};

}  // namespace ft::hub
