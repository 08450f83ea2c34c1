#include "backends/split/rank_group.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

#include "base/thread_pool.h"
#include "program/backend.h"

namespace ft::split {
namespace {

// A yield on a busy machine may take milliseconds, and the wait is bounded by sleeps.
constexpr int kSpins = 2000, kYields = 20;
constexpr std::uint32_t kLastNumber = 1U << 31;

}  // namespace

RankGroup::RankGroup(std::vector<std::string> names, RankGroupOptions options)
    : names_(std::move(names)),
      wire_(options.wire ? std::move(options.wire) : std::make_unique<Wire>()),
      patience_ms_(options.patience_ms),
      mailboxes_(ranks(), *wire_),
      numbers_(names_.size()) {
  for (int rank = 1; rank < ranks(); ++rank) threads_.emplace_back([this, rank] { serve(rank); });
}

RankGroup::~RankGroup() {
  ends_.store(true);
  task_.fetch_add(1);
  task_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankGroup::settle() const {
  while (running_.load(std::memory_order_acquire) > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void RankGroup::serve(int rank) {
  for (std::uint32_t done = 0;;) {
    task_.wait(done);
    done = task_.load();
    if (ends_.load()) return;
    work(rank);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

void RankGroup::work(int rank) {
  try {
    (*work_)(rank);
  } catch (const Stopped&) {
    // Another rank says why.
  } catch (...) {
    if (stopped_.exchange(true)) return;
    failure_ = std::current_exception();
    explained_.store(true, std::memory_order_release);
  }
}

template <class Ready>
bool RankGroup::wait(const Ready& ready, bool stops) const {
  for (int polls = 0, slept_ms = 0; !ready(); ++polls) {
    if (stops && stopped_.load(std::memory_order_relaxed)) return false;
    mailboxes_.waiting();
    if (polls < kSpins) {
      relax();
    } else if (polls < kSpins + kYields) {
      std::this_thread::yield();
    } else if (slept_ms++ < patience_ms_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      return false;
    }
  }
  return true;
}

void RankGroup::run(const std::function<void(int)>& work_of_rank) {
  if (!lost_.empty()) throw BackendLost(lost_);
  if (numbers_[0] >= kLastNumber) restart();
  work_ = &work_of_rank;
  running_.store(ranks() - 1, std::memory_order_relaxed);
  task_.fetch_add(1, std::memory_order_release);
  task_.notify_all();
  work(0);
  if (!wait([this] { return running_.load(std::memory_order_acquire) == 0; }, false)) {
    lost_ = "a device has not ended its step; restart the program";
    if (explained_.load(std::memory_order_acquire)) {
      try {
        std::rethrow_exception(failure_);
      } catch (const BackendLost& lost) {
        lost_ = lost.what();
      } catch (...) {
        // It is still at work, which is worse.
      }
    }
    throw BackendLost(lost_);
  }
  if (!stopped_) return;
  const std::exception_ptr failure = std::exchange(failure_, nullptr);
  restart();
  try {
    std::rethrow_exception(failure);
  } catch (const BackendLost& lost) {
    lost_ = lost.what();
    throw;
  }
}

void RankGroup::restart() {
  stopped_ = explained_ = false;
  mailboxes_.clear();
  numbers_.assign(numbers_.size(), 0);
}

void RankGroup::exchange(int rank, const RankExchange& exchange, int rows, std::span<const float> sent,
                         std::span<float> made) {
  const std::uint32_t number = ++numbers_[static_cast<std::size_t>(rank)];
  for (int other = 0; other < ranks(); ++other) {
    if (other != rank) mailboxes_.send(rank, other, number, sent);
  }
  const RankColumns& own = exchange.from[static_cast<std::size_t>(rank)];
  const auto width = static_cast<std::size_t>(exchange.width);
  const auto sent_width = static_cast<std::size_t>(width_of(own));
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    const float* from = sent.data() + row * sent_width;
    for (const Columns& part : own) {
      std::copy_n(from, part.width, made.data() + row * width + static_cast<std::size_t>(part.first));
      from += part.width;
    }
  }
  for (int other = 0; other < ranks(); ++other) {
    if (other != rank) receive(rank, other, exchange, rows, made);
  }
}

void RankGroup::receive(int rank, int from, const RankExchange& exchange, int rows, std::span<float> made) {
  const std::uint32_t number = numbers_[static_cast<std::size_t>(rank)];
  const RankColumns& columns = exchange.from[static_cast<std::size_t>(from)];
  const std::size_t count = static_cast<std::size_t>(width_of(columns)) * static_cast<std::size_t>(rows);
  std::size_t seen = 0;
  auto arrival = Mailboxes::Arrival::kWaiting;
  const bool in_time = wait(
      [&] {
        arrival = mailboxes_.arrival(rank, from, number, count, seen);
        return arrival != Mailboxes::Arrival::kWaiting;
      },
      true);
  if (!in_time && stopped_) throw Stopped();
  if (!in_time) {
    throw BackendLost(
        fmt::format("{} has not sent its part of a row for {:.3g} s; restart the program, "
                    "without this device if it happens again",
                    names_[static_cast<std::size_t>(from)], patience_ms_ * 1e-3));
  }
  if (arrival == Mailboxes::Arrival::kOther) {
    throw BackendLost(fmt::format("{} sent another number of columns than {} expects; restart the program",
                                  names_[static_cast<std::size_t>(from)],
                                  names_[static_cast<std::size_t>(rank)]));
  }
  std::size_t next = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    float* const to = made.data() + row * static_cast<std::size_t>(exchange.width);
    for (const Columns& part : columns) {
      for (int column = part.first; column < part.first + part.width; ++column)
        to[column] = mailboxes_.value(rank, from, number, next++);
    }
  }
}

}  // namespace ft::split
