#include "base/seats.h"

#include <algorithm>

namespace ft {

Seats::Seats(int count, int workers)
    : workers_(workers), seats_(static_cast<std::size_t>(count)), limit_(workers) {
  used_.reserve(seats_.size());
  shares_.reserve(seats_.size());
  choose(workers);
}

std::span<const int> Seats::choose(int most) {
  used_.clear();
  const auto wanted = static_cast<std::size_t>(std::clamp(most, 1, limit_));
  for (std::size_t seat = 0; seat < seats_.size() && used_.size() < wanted; ++seat)
    if (!seats_[seat].empty) used_.push_back(static_cast<int>(seat));
  return used_;
}

void Seats::observe(int seat, std::int64_t ns, std::int64_t lost_ns) {
  Seat& of = seats_[static_cast<std::size_t>(seat)];
  of.ns += ns;
  of.lost_ns += std::clamp<std::int64_t>(lost_ns, 0, ns);
}

int Seats::left_empty() const {
  return static_cast<int>(std::ranges::count_if(seats_, [](const Seat& seat) { return seat.empty; }));
}

double Seats::usual_share() {
  shares_.clear();
  for (const int seat : used_) shares_.push_back(share(seat));
  const auto middle = shares_.begin() + static_cast<std::ptrdiff_t>((shares_.size() - 1) / 2);
  std::ranges::nth_element(shares_, middle);
  return *middle;
}

/// A worker less costs its share of the work; one that comes late costs all workers the time that it lost.
bool Seats::may_leave_empty(double lost) const {
  constexpr double kMargin = 1.3, kMin = 0.04;
  constexpr int kFewest = 2;
  const int open = static_cast<int>(seats_.size()) - left_empty();
  const int used = static_cast<int>(used_.size());
  if (open > used) return lost > kLostToMove;
  return used > kFewest && lost > kMargin / used + kMin;
}

void Seats::leave_empty(Seat& seat, std::int64_t now_ns) {
  // A seat that was fine for longer than its last break begins anew.
  const bool again = seat.break_ns > 0 && now_ns - seat.back_ns < seat.break_ns;
  seat.break_ns = again ? std::min(2 * seat.break_ns, kLongestBreakNs) : kFirstBreakNs;
  seat.back_ns = now_ns + seat.break_ns;
  seat.empty = true;
}

int Seats::leave_worst_empty(std::int64_t now_ns, int windows) {
  const double usual = usual_share();
  int worst = -1;
  for (const int at : used_) {
    Seat& seat = seats_[static_cast<std::size_t>(at)];
    seat.late = may_leave_empty(seat.share() - usual) ? seat.late + windows : 0;
    if (worst < 0 || seat.share() > share(worst)) worst = at;
  }
  // One at a time: the others may have waited for it.
  Seat& candidate = seats_[static_cast<std::size_t>(worst)];
  if (candidate.late < kWindows) return -1;
  leave_empty(candidate, now_ns);
  return worst;
}

// Parts of a task between two barriers are short against the time for which a core is taken. So all workers
// work only while all have their core: with independent shares the speed is the product of what is left to
// each. Two taken cores of two leave a quarter or less, where one worker has half.
bool Seats::too_many(int crowded, double most_lost) {
  constexpr double kOneOfTwo = 0.45;  // one worker, which the system may move, has more than half the speed
  const bool tried = before_try_ > 0 && std::ssize(used_) > before_try_;
  const int spare = static_cast<int>(seats_.size()) - workers_ - left_empty();
  if (crowded <= spare && !tried && usual_share() <= kCrowded) return false;  // they are replaced
  return crowded >= (tried ? 1 : 2) || (std::ssize(used_) == 2 && most_lost > kOneOfTwo);
}

void Seats::change_limit(std::int64_t now_ns, int windows, int crowded, double most_lost) {
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

int Seats::rearrange(std::int64_t now_ns, std::int64_t waited_ns) {
  for (Seat& seat : seats_)
    if (seat.empty && now_ns >= seat.back_ns) seat = {0, 0, seat.back_ns, seat.break_ns, 0, false};
  if (!due(now_ns)) return -1;
  const std::int64_t window_ns = now_ns - rearranged_ns_;
  const bool waits = static_cast<double>(waited_ns - waited_ns_) >= kQuiet * static_cast<double>(window_ns);
  rearranged_ns_ = now_ns;
  waited_ns_ = waited_ns;
  // A task that lasted as long as two windows says as much.
  const Seat& first = seats_[static_cast<std::size_t>(used_.front())];
  const int windows = first.ns >= kWindows * kWindowNs ? kWindows : 1;
  int crowded = 0;
  double most_lost = 0;
  for (const int at : used_) {
    crowded += share(at) > kCrowded ? 1 : 0;
    most_lost = std::max(most_lost, share(at));
  }
  const int limit = limit_;
  change_limit(now_ns, windows, crowded, waits ? std::max(most_lost, kQuiet) : most_lost);
  const int left = limit_ == limit && late_ == 0 ? leave_worst_empty(now_ns, windows) : -1;
  crowded_ = crowded > (left >= 0 && share(left) > kCrowded ? 1 : 0);
  for (Seat& seat : seats_) seat.ns = seat.lost_ns = 0;
  return left;
}

}  // namespace ft
