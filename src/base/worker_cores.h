// WorkerCores: chooses the cores of a pool's workers. A pool has a core for each worker and, where the
// machine has more, a few spare ones. If another program uses a worker's core, all workers wait for it at
// every barrier, so its core is avoided for a while: a spare core replaces it, or the task has a worker less.
// After a second, later up to a minute, the core is tried again. If several cores are in use, each divides
// the speed once more, so tasks get at most half of the workers at once, and again, down to one. When those
// are left alone, one worker more is tried, then two, four and so on; after a try that failed the next one
// comes later, after 4 seconds at most. Owner: a pool; the caller's thread only. Cost: some additions for
// each task that is watched; it allocates nothing after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

class WorkerCores {
 public:
  static constexpr std::int64_t kWindowNs = 20'000'000;  // of observations, after which cores are rearranged
  static constexpr double kLostToMove = 0.08;            // share of its time, where a spare core is free
  static constexpr int kWindows = 2;        // in a row, because a single one may be a short disturbance
  static constexpr double kCrowded = 0.25;  // share of its time: no worker should spin for long
  static constexpr double kQuiet = 0.1;     // share, below which one more worker may be tried
  static constexpr int kQuietWindows = 5;  // in a row: a thread that just woke up is rarely preempted at once
  static constexpr std::int64_t kFirstBreakNs = 1'000'000'000, kLongestBreakNs = 60 * kFirstBreakNs;
  static constexpr std::int64_t kFirstLimitNs = 250'000'000, kLongestLimitNs = 16 * kFirstLimitNs;

  /// `count` >= `workers`. The others are spare.
  WorkerCores(int count, int workers);

  /// The cores of a task of at most `most` workers, ascending; at least one, at most limit(). Valid until the
  /// next call.
  std::span<const int> choose(int most);
  /// In `ns` of a task the worker of `core` was ready to run for `lost_ns` without a core.
  void observe(int core, std::int64_t ns, std::int64_t lost_ns);
  /// Whether a window has ended; before, rearrange() only brings back cores and needs no `waited_ns`.
  bool due(std::int64_t now_ns) const { return now_ns - rearranged_ns_ >= kWindowNs; }
  /// After the observations of a task: avoids a core, changes the limit, or tries some again. Returns the
  /// core that it avoids from now on, or -1. `waited_ns`: how long the caller has waited for a core since its
  /// start, between tasks too; needed while limit() is in force only.
  int rearrange(std::int64_t now_ns, std::int64_t waited_ns = 0);

  /// True if other programs use cores of workers that are not avoided.
  bool crowded() const { return crowded_; }
  /// The number of workers that a task may have while several cores are taken; otherwise all.
  int limit() const { return limit_; }
  /// Number of cores that are avoided now.
  int avoided() const;

 private:
  struct Core {
    std::int64_t ns = 0, lost_ns = 0;        // since the last rearrangement
    std::int64_t back_ns = 0, break_ns = 0;  // when it is tried again; how long its last break was
    int late = 0;                            // windows in a row in which it lost too much
    bool avoided = false;
    double share() const { return ns > 0 ? static_cast<double>(lost_ns) / static_cast<double>(ns) : 0; }
  };

  double share(int core) const { return cores_[static_cast<std::size_t>(core)].share(); }
  /// The median of the used cores: time that all of them lose says nothing about one.
  double usual_share();
  bool may_avoid(double lost) const;
  void avoid(Core& core, std::int64_t now_ns);
  int avoid_worst(std::int64_t now_ns, int windows);
  /// Whether fewer workers than used cores would be faster.
  bool too_many(int crowded, double most_lost);
  void change_limit(std::int64_t now_ns, int windows, int crowded, double most_lost);

  int workers_;
  std::vector<Core> cores_;
  std::vector<int> used_;
  std::vector<double> shares_;
  std::int64_t rearranged_ns_ = 0, waited_ns_ = 0;
  bool crowded_ = false;
  // State of the limit:
  int limit_;
  int before_try_ = 0;        // the limit before more workers were tried; 0: it was not raised
  int step_ = 1;              // workers more for the next try
  int late_ = 0;              // windows in a row with a loss that fewer workers avoid
  int quiet_ = 0;             // in a row that allow more workers
  int fine_ = 0;              // since more were tried
  std::int64_t try_ns_ = 0;   // when more may be tried
  std::int64_t wait_ns_ = 0;  // how long the last wait for a try was
};

}  // namespace ft
