#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>

#include "base/system.h"

namespace ft {
namespace {

// A pause takes from 5 to 150 cycles, so the number of spins is found once, by spinning for about 20 us.
long spins_per_microsecond() {
  static const long spins = [] {
    using Clock = std::chrono::steady_clock;
    constexpr int kTrial = 500;
    const auto begin = Clock::now();
    for (int i = 0; i < kTrial; ++i) relax();
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    return std::max(1L, static_cast<long>(kTrial / std::max(took.count(), 1.0)));
  }();
  return spins;
}

}  // namespace

ThreadPool::ThreadPool(int workers, int spin_us) : spins_(spin_us * spins_per_microsecond()) {
  const std::vector<int> cores = usable_cores();
  workers_ = workers > 0 ? workers : static_cast<int>(cores.size());
  const bool pinned = workers_ <= static_cast<int>(cores.size());
  if (pinned && workers_ > 1) own_core_ = cores.front();
  threads_.reserve(static_cast<std::size_t>(workers_));
  try {
    for (int worker = 1; worker < workers_; ++worker) {
      const int core = pinned ? cores[static_cast<std::size_t>(worker)] : -1;
      threads_.emplace_back([this, worker, core] { serve(worker, core); });
    }
  } catch (...) {  // a thread cannot be started: release the ones that run
    stop_ = true;
    epoch_.fetch_add(1);
    epoch_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::wait(const std::atomic<int>& word, int old) const {
  for (long i = 0; i < spins_; ++i) {
    if (word.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

bool ThreadPool::arrive() {
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) != workers_ - 1) return false;
  arrived_.store(0, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  return true;
}

void ThreadPool::start(Call call, void* context) {
  const StayOnCore stay(own_core_);
  call_ = call;
  context_ = context;
  if (workers_ > 1) {
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }
  call(context, 0, workers_);
  barrier();
}

void ThreadPool::serve(int worker, int core) {
  prefer_speed();
  if (core >= 0) pin_to_core(core);
  int seen = 0;
  while (true) {
    wait(epoch_, seen);
    ++seen;  // run() returns only after everyone's barrier, so no epoch is skipped
    if (stop_) return;
    call_(context_, worker, workers_);
    barrier();
  }
}

}  // namespace ft
