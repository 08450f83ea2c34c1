#include "base/thread_pool.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/cpu_quota.h"
#include "base/log.h"
#include "base/system.h"
#include "base/topology.h"

namespace ft {
namespace {

constexpr int kShortSpinUs = 40;
constexpr std::int64_t kWatchedTaskNs = 200'000;  // shorter tasks are watched now and then
constexpr std::int64_t kWatchedOf = 16;           // one of this number

// A pause takes from 5 to 150 cycles, so the number of spins is found once, by spinning for about 20 us. The
// fastest of some trials: another program may have interrupted one.
std::int64_t spins_per_microsecond() {
  static const std::int64_t spins = [] {
    constexpr int kTrial = 200, kTrials = 5;
    std::int64_t fastest_ns = kTrial * 1000;
    for (int trial = 0; trial < kTrials; ++trial) {
      const std::int64_t begin = steady_ns();
      for (int i = 0; i < kTrial; ++i) relax();
      fastest_ns = std::min(fastest_ns, steady_ns() - begin);
    }
    return std::max<std::int64_t>(1, kTrial * 1000 / std::max<std::int64_t>(fastest_ns, 1000));
  }();
  return spins;
}

/// Some systems count a thread's time in milliseconds, too coarse for one task.
bool is_fine(ThreadPool::ThreadClock clock) {
  constexpr std::int64_t kTrialNs = 50'000;
  const std::int64_t used = clock(), begin = steady_ns();
  std::int64_t now = used;
  while (now == used && steady_ns() - begin < kTrialNs) now = clock();
  return now != used && now - used < 2 * kTrialNs;
}

/// Threads for further cores, which replace workers; most of them never run.
int spare_threads(int workers, int cores) {
  constexpr int kFew = 2, kOneOf = 4;
  return std::min(cores - workers, kFew + workers / kOneOf);
}

int thread_count(int workers, const std::vector<int>& cores) {
  const auto all = static_cast<int>(cores.size());
  return workers == 1 || workers >= all ? workers : workers + spare_threads(workers, all);
}

int worker_count(int wanted, const std::vector<int>& cores, double quota) {
  return wanted > 0 ? wanted : cores_within(quota, std::max(1, static_cast<int>(cores.size())));
}

thread_local std::int64_t all_slept_ns = 0;  // of this thread in a pool, ever

}  // namespace

/// How long a worker of a watched task had no core, although it neither slept nor waited for a file.
class ThreadPool::Watch {
 public:
  explicit Watch(ThreadClock clock)
      : clock_(clock),
        begin_ns_(steady_ns()),
        used_ns_(clock()),
        slept_ns_(all_slept_ns),
        waits_(waits_for_files()) {}
  void tell(Place& place) const {
    place.ns = steady_ns() - begin_ns_;
    const bool waited = waits_for_files() != waits_;
    place.lost_ns = waited ? 0 : place.ns - (clock_() - used_ns_) - (all_slept_ns - slept_ns_);
  }

 private:
  ThreadClock clock_;
  std::int64_t begin_ns_, used_ns_, slept_ns_, waits_;
};

int usual_workers() { return worker_count(0, usable_cores(), cpu_quota()); }

std::vector<int> usable_cores() {
  std::vector<int> cpus;
  for (const Core& core : worker_cores()) cpus.push_back(core.cpu);
  return cpus;
}

ThreadPool::ThreadPool(int workers, int spin_us, std::vector<int> cores, ThreadClock clock)
    : ThreadPool(workers, spin_us, std::move(cores), clock, workers > 0 ? 0 : cpu_quota()) {}

ThreadPool::ThreadPool(int workers, int spin_us, std::vector<int> cores, ThreadClock clock, double quota)
    : workers_(worker_count(workers, cores, quota)),
      clock_(clock),
      longest_spins_(spin_us * spins_per_microsecond()),
      shortest_spins_(std::min(spin_us, kShortSpinUs) * spins_per_microsecond()),
      pinned_(workers_ > 1 && workers_ <= static_cast<int>(cores.size()) &&
              cores_within(quota, static_cast<int>(cores.size())) == static_cast<int>(cores.size())),
      watches_(workers_ > 1 && workers_ <= static_cast<int>(cores.size()) && is_fine(clock)),
      cores_(pinned_ ? thread_count(workers_, cores) : workers_, workers_) {
  // More workers than cores: a worker that spins keeps another one from its core. With a quota, spinning
  // spends it, and the system alone decides which cores are free: other containers use the same ones.
  if (!pinned_) longest_spins_ = shortest_spins_;
  spins_.store(longest_spins_, std::memory_order_relaxed);
  const auto count = static_cast<std::size_t>(pinned_ ? thread_count(workers_, cores) : workers_);
  for (std::size_t i = 0; i < count; ++i) {
    places_.push_back(std::make_unique<Place>());
    if (pinned_) places_.back()->core = cores[i];
  }
  try {
    for (std::size_t i = 1; i < count; ++i) {
      Place& place = *places_[i];
      place.thread = std::thread([this, &place] { serve(place); });
    }
  } catch (...) {  // a thread cannot be started: release the ones that run
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_ = true;
  for (const auto& place : places_) {
    if (!place->thread.joinable()) continue;
    place->task.raise();
    place->thread.join();
  }
}

int ThreadPool::sleeping() const {
  int count = 0;
  for (const auto& place : places_) count += place->task.sleepers.load(std::memory_order_relaxed);
  return count;
}

// A sleeping thread has counted itself before it reads the value for the last time.
void ThreadPool::Signal::raise() {
  if (sleepers.load(std::memory_order_relaxed) > 0) woken_ns.store(steady_ns(), std::memory_order_relaxed);
  value.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0) value.notify_all();
}

void ThreadPool::wait(Signal& signal, int old) {
  const std::int64_t spins = spins_.load(std::memory_order_relaxed);
  for (std::int64_t i = 0; i < spins; ++i) {
    if (signal.value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  const std::int64_t begin = steady_ns();
  signal.sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (signal.value.load(std::memory_order_seq_cst) == old)
    signal.value.wait(old, std::memory_order_acquire);
  signal.sleepers.fetch_sub(1, std::memory_order_relaxed);
  const std::int64_t now = steady_ns();
  all_slept_ns += slept_ns(begin, signal.woken_ns.load(std::memory_order_relaxed), now);
  // Spinning longer would have helped only if the sleep was short.
  constexpr std::int64_t kShortSleepNs = std::int64_t{kSpinUs} * 1000;
  const std::int64_t next =
      now - begin < kShortSleepNs ? longest_spins_ : std::max(shortest_spins_, spins / 2);
  spins_.store(next, std::memory_order_relaxed);
}

bool ThreadPool::arrive() {
  const int last = active_ - 1;  // read first: once this worker is counted, the next task may begin
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) != last) return false;
  arrived_.store(0, std::memory_order_relaxed);
  generation_.raise();
  return true;
}

void ThreadPool::start(Call call, void* context, int most) {
  const std::span<const int> used = cores_.choose(most);
  Place& own = *places_[static_cast<std::size_t>(used.front())];
  active_ = static_cast<int>(used.size());
  const StayOnCore stay(active_ > 1 ? own.core : -1);  // a worker alone may go where a core is free
  call_ = call;
  context_ = context;
  watched_ = watches_ && (task_ns_ >= kWatchedTaskNs || tasks_ % kWatchedOf == 0);
  ++tasks_;
  const std::int64_t begin = watches_ ? steady_ns() : 0;
  const int generation = generation_.value.load(std::memory_order_relaxed);
  own.worker = 0;
  for (int worker = 1; worker < active_; ++worker) {
    Place& place = *places_[static_cast<std::size_t>(used[static_cast<std::size_t>(worker)])];
    place.worker = worker;
    place.task.raise();
  }
  work(own);
  barrier();
  // Workers that meet only at the end do not hold each other up.
  watched_ = watched_ && (active_ == 1 || generation_.value.load(std::memory_order_relaxed) - generation > 1);
  if (watches_) observe_task(begin);
}

void ThreadPool::work(Place& place) {
  if (!watched_) return call_(context_, place.worker, active_);
  const Watch watch(clock_);
  call_(context_, place.worker, active_);
  watch.tell(place);
}

void ThreadPool::observe_task(std::int64_t begin_ns) {
  const std::int64_t now = steady_ns();
  task_ns_ = now - begin_ns;
  if (!watched_) return;
  for (const int index : cores_.choose(active_)) {
    const Place& place = *places_[static_cast<std::size_t>(index)];
    cores_.observe(index, place.ns, place.lost_ns);
  }
  const int limit = cores_.limit();
  const std::int64_t waited_ns = limit < workers_ && cores_.due(now) ? waited_for_cores_ns() : 0;
  if (const int avoided = cores_.rearrange(now, waited_ns); avoided >= 0) {
    const int core = places_[static_cast<std::size_t>(avoided)]->core;
    log_info(fmt::format("another program uses {}; its worker is paused or replaced for a while",
                         core < 0 ? "a worker's core" : fmt::format("core {}", core)));
  }
  if (limit == workers_ && cores_.limit() < limit)
    log_info(fmt::format("other programs use the processor's cores; steps have {} of {} workers for a while",
                         cores_.limit(), limit));
  if (cores_.crowded()) spins_.store(shortest_spins_, std::memory_order_relaxed);
}

void ThreadPool::serve(Place& place) {
  prefer_speed();
  if (place.core >= 0) pin_to_core(place.core);
  for (int seen = 0;; ++seen) {
    wait(place.task, seen);
    if (stop_) return;
    work(place);
    barrier();
  }
}

}  // namespace ft
