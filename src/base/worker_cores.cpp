#include "base/worker_cores.h"

#include <algorithm>

namespace ft {

WorkerCores::WorkerCores(int count, int workers)
    : workers_(workers), cores_(static_cast<std::size_t>(count)), limit_(workers) {
  used_.reserve(cores_.size());
  shares_.reserve(cores_.size());
  choose(workers);
}

std::span<const int> WorkerCores::choose(int most) {
  used_.clear();
  const auto wanted = static_cast<std::size_t>(std::clamp(most, 1, limit_));
  for (std::size_t core = 0; core < cores_.size() && used_.size() < wanted; ++core)
    if (!cores_[core].avoided) used_.push_back(static_cast<int>(core));
  return used_;
}

void WorkerCores::observe(int core, std::int64_t ns, std::int64_t lost_ns) {
  Core& of = cores_[static_cast<std::size_t>(core)];
  of.ns += ns;
  of.lost_ns += std::clamp<std::int64_t>(lost_ns, 0, ns);
}

int WorkerCores::avoided() const {
  return static_cast<int>(std::ranges::count_if(cores_, [](const Core& core) { return core.avoided; }));
}

double WorkerCores::usual_share() {
  shares_.clear();
  for (const int core : used_) shares_.push_back(share(core));
  const auto middle = shares_.begin() + static_cast<std::ptrdiff_t>((shares_.size() - 1) / 2);
  std::ranges::nth_element(shares_, middle);
  return *middle;
}

/// One worker fewer costs its share of the work; a late worker costs all workers the time that it lost.
bool WorkerCores::may_avoid(double lost) const {
  constexpr double kMargin = 1.3, kMin = 0.04;
  constexpr int kFewest = 2;
  const int open = static_cast<int>(cores_.size()) - avoided();
  const int used = static_cast<int>(used_.size());
  if (open > used) return lost > kLostToMove;
  return used > kFewest && lost > kMargin / used + kMin;
}

void WorkerCores::avoid(Core& core, std::int64_t now_ns) {
  // A core that was fine for longer than its last break begins anew.
  const bool again = core.break_ns > 0 && now_ns - core.back_ns < core.break_ns;
  core.break_ns = again ? std::min(2 * core.break_ns, kLongestBreakNs) : kFirstBreakNs;
  core.back_ns = now_ns + core.break_ns;
  core.avoided = true;
}

int WorkerCores::avoid_worst(std::int64_t now_ns, int windows) {
  const double usual = usual_share();
  int worst = -1;
  for (const int at : used_) {
    Core& core = cores_[static_cast<std::size_t>(at)];
    core.late = may_avoid(core.share() - usual) ? core.late + windows : 0;
    if (worst < 0 || core.share() > share(worst)) worst = at;
  }
  // Only one at a time, because the others may have waited for it.
  Core& candidate = cores_[static_cast<std::size_t>(worst)];
  if (candidate.late < kWindows) return -1;
  avoid(candidate, now_ns);
  return worst;
}

// Parts of a task between two barriers are short compared with the time slices of other programs. All workers
// progress only while all have their core: with independent shares the speed is the product of the workers'
// shares. With both of two cores taken, a quarter or less is left; one worker has half.
bool WorkerCores::too_many(int crowded, double most_lost) {
  constexpr double kOneOfTwo = 0.45;  // one worker, which the system may move, has more than half the speed
  const bool tried = before_try_ > 0 && std::ssize(used_) > before_try_;
  const int spare = static_cast<int>(cores_.size()) - workers_ - avoided();
  if (crowded <= spare && !tried && usual_share() <= kCrowded) return false;  // they are replaced
  return crowded >= (tried ? 1 : 2) || (std::ssize(used_) == 2 && most_lost > kOneOfTwo);
}

void WorkerCores::change_limit(std::int64_t now_ns, int windows, int crowded, double most_lost) {
  const int used = static_cast<int>(used_.size());
  if (!too_many(crowded, most_lost)) {
    late_ = 0;
    quiet_ = most_lost < kQuiet ? quiet_ + windows : 0;
    if (++fine_ >= kQuietWindows) before_try_ = 0;
    if (limit_ == workers_ && before_try_ == 0) wait_ns_ = 0;
    if (limit_ == workers_ || now_ns < try_ns_ || quiet_ < kQuietWindows) return;
    before_try_ = limit_;
    limit_ = std::min(workers_, limit_ + step_);
    step_ *= 2;
    quiet_ = fine_ = 0;
    return;
  }
  quiet_ = 0;
  late_ += windows;
  if (late_ < kWindows) return;
  const bool failed = before_try_ > 0;
  wait_ns_ = failed ? std::min(2 * wait_ns_, kLongestLimitNs) : std::max(wait_ns_, kFirstLimitNs);
  try_ns_ = now_ns + wait_ns_;
  limit_ = failed ? before_try_ : std::max({1, used / 2, used - crowded});
  before_try_ = late_ = 0;
  step_ = 1;
}

int WorkerCores::rearrange(std::int64_t now_ns, std::int64_t waited_ns) {
  for (Core& core : cores_)
    if (core.avoided && now_ns >= core.back_ns) core = {0, 0, core.back_ns, core.break_ns, 0, false};
  if (!due(now_ns)) return -1;
  const std::int64_t window_ns = now_ns - rearranged_ns_;
  const bool waits = static_cast<double>(waited_ns - waited_ns_) >= kQuiet * static_cast<double>(window_ns);
  rearranged_ns_ = now_ns;
  waited_ns_ = waited_ns;
  // One task as long as two windows is equal evidence.
  const Core& first = cores_[static_cast<std::size_t>(used_.front())];
  const int windows = first.ns >= kWindows * kWindowNs ? kWindows : 1;
  int crowded = 0;
  double most_lost = 0;
  for (const int at : used_) {
    crowded += share(at) > kCrowded ? 1 : 0;
    most_lost = std::max(most_lost, share(at));
  }
  const int limit = limit_;
  change_limit(now_ns, windows, crowded, waits ? std::max(most_lost, kQuiet) : most_lost);
  const int left = limit_ == limit && late_ == 0 ? avoid_worst(now_ns, windows) : -1;
  crowded_ = crowded > (left >= 0 && share(left) > kCrowded ? 1 : 0);
  for (Core& core : cores_) core.ns = core.lost_ns = 0;
  return left;
}

}  // namespace ft
