#include "base/seats.h"

#include <algorithm>

namespace ft {

Seats::Seats(int count, int workers)
    : workers_(workers),
      least_(std::max(std::min(workers, 2), (workers + 1) / 2)),
      seats_(static_cast<std::size_t>(count)) {
  used_.reserve(seats_.size());
  shares_.reserve(seats_.size());
  choose(workers);
}

std::span<const int> Seats::choose(int most) {
  used_.clear();
  const auto wanted = static_cast<std::size_t>(std::clamp(most, 1, workers_));
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
  for (const int seat : used_) shares_.push_back(seats_[static_cast<std::size_t>(seat)].share());
  const auto middle = shares_.begin() + static_cast<std::ptrdiff_t>((shares_.size() - 1) / 2);
  std::ranges::nth_element(shares_, middle);
  return *middle;
}

/// A worker less costs its share of the work; one that comes late costs all workers the time that it lost.
bool Seats::may_leave_empty(double lost) const {
  constexpr double kMargin = 1.3, kMin = 0.04;
  const int open = static_cast<int>(seats_.size()) - left_empty();
  const int used = static_cast<int>(used_.size());
  if (open > used) return lost > kLostToMove;
  return used > least_ && lost > kMargin / used + kMin;
}

void Seats::leave_empty(Seat& seat, std::int64_t now_ns) {
  // A seat that was fine for longer than its last break begins anew.
  const bool again = seat.break_ns > 0 && now_ns - seat.back_ns < seat.break_ns;
  seat.break_ns = again ? std::min(2 * seat.break_ns, kLongestBreakNs) : kFirstBreakNs;
  seat.back_ns = now_ns + seat.break_ns;
  seat.empty = true;
}

int Seats::rearrange(std::int64_t now_ns) {
  for (Seat& seat : seats_)
    if (seat.empty && now_ns >= seat.back_ns) seat = {0, 0, seat.back_ns, seat.break_ns, 0, false};
  if (now_ns - rearranged_ns_ < kWindowNs) return -1;
  rearranged_ns_ = now_ns;
  const double usual = usual_share();
  int worst = -1;
  for (const int at : used_) {
    Seat& seat = seats_[static_cast<std::size_t>(at)];
    seat.late = may_leave_empty(seat.share() - usual) ? seat.late + 1 : 0;
    if (worst < 0 || seat.share() > seats_[static_cast<std::size_t>(worst)].share()) worst = at;
  }
  // One at a time: the others may have waited for it.
  Seat& candidate = seats_[static_cast<std::size_t>(worst)];
  const bool leaves = candidate.late >= kWindows;
  if (leaves) leave_empty(candidate, now_ns);
  crowded_ = std::ranges::any_of(used_, [this](int at) {
    const Seat& seat = seats_[static_cast<std::size_t>(at)];
    return !seat.empty && seat.share() > kCrowded;
  });
  for (Seat& seat : seats_) seat.ns = seat.lost_ns = 0;
  return leaves ? worst : -1;
}

}  // namespace ft
