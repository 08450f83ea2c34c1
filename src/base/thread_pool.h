// ThreadPool: a fixed set of workers that share one task at a time. The thread that calls run() is worker 0;
// the others start once, each pinned to its own core where there are enough. Worker 0 keeps its core during a
// task, because a thread that the system may move takes the core of a sleeping worker, and then the two
// wait for each other at every barrier. A task may have fewer workers than the pool; the others sleep. Some
// threads are spare: they replace workers whose core another program uses. If other programs use several
// cores, tasks have fewer workers (base/worker_cores.h).
// Between tasks and at barriers a worker spins for up to a millisecond and then sleeps in the kernel. It
// spins for less after it has slept for long, and while other programs use its pool's cores.
// Owner: a backend. Thread: one thread at a time may call run(); barrier() only from inside the task. Cost:
// run() and barrier() allocate nothing and take no lock; run() asks the system three times to keep its core,
// reads clocks and asks for waits. Only while other programs take cores of several workers it also reads a
// file of the system, every 20 ms, which allocates. Errors: the constructor throws std::system_error if the
// machine refuses a thread; the task must not throw.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/worker_cores.h"

namespace ft {

/// A pause of a thread that spins.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Cores that this process may use, one hardware thread each; at least 1.
std::vector<int> usable_cores();
/// One for each of them, or fewer if a control group grants less time (base/cpu_quota.h).
int usual_workers();

class ThreadPool {
 public:
  static constexpr int kSpinUs = 1000;
  using ThreadClock = std::int64_t (*)();  // nanoseconds that the calling thread had a core for

  /// `workers` includes the caller; 0 means usual_workers(), which are not pinned if a quota limits them.
  /// spin_us: 0 sleeps at once. `cores`: one for each worker, then the spare threads' cores; workers are
  /// pinned if there are enough.
  explicit ThreadPool(int workers = 0, int spin_us = kSpinUs, std::vector<int> cores = usable_cores(),
                      ThreadClock clock = thread_ns);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Maximum workers of a task.
  int workers() const { return workers_; }
  /// Threads that sleep until they have a task; a while after a task, all of them.
  int sleeping() const;

  /// The sleep of a thread from `begin_ns` until it runs again at `now_ns`. After it was woken, at
  /// `woken_ns`, it no longer sleeps but waits for a core. 0 or an earlier sleep: the time is unknown.
  static constexpr std::int64_t slept_ns(std::int64_t begin_ns, std::int64_t woken_ns, std::int64_t now_ns) {
    return (woken_ns > begin_ns && woken_ns < now_ns ? woken_ns : now_ns) - begin_ns;
  }

  /// Calls work(worker, workers) once on every worker and returns when all have returned. `workers` is at
  /// most `most`; it is less while other programs take cores.
  template <class Work>
  void run(Work& work, int most) {
    start([](void* context, int worker, int workers) { (*static_cast<Work*>(context))(worker, workers); },
          &work, most);
  }
  template <class Work>
  void run(Work& work) {
    run(work, workers_);
  }

  /// Returns when every worker has called it equally often. Writes before it are visible to all after it.
  void barrier() {
    barrier([] { return false; });
  }
  /// The same. A worker that waits calls idle() again and again until it returns false.
  template <class Idle>
  void barrier(const Idle& idle) {
    if (active_ == 1) return;
    // This must be read before arriving, because the last worker to arrive may raise it at once.
    const int generation = generation_.value.load(std::memory_order_acquire);
    if (arrive()) return;
    while (generation_.value.load(std::memory_order_acquire) == generation && idle()) {
    }
    wait(generation_, generation);
  }

 private:
  ThreadPool(int workers, int spin_us, std::vector<int> cores, ThreadClock clock, double quota);
  using Call = void (*)(void* context, int worker, int workers);

  /// A number that is raised by one, and threads that wait for that.
  struct alignas(64) Signal {
    std::atomic<int> value{0};
    std::atomic<int> sleepers{0};
    std::atomic<std::int64_t> woken_ns{0};  // when it was last raised for a sleeper
    void raise();
  };
  /// A pool thread on one of cores_. The first place has no thread: it is the caller's.
  struct Place {
    Signal task;  // raised when the thread has a task
    int core = -1;
    int worker = 0;                    // in this task
    std::int64_t ns = 0, lost_ns = 0;  // of this task, if it is watched
    std::thread thread;
  };
  class Watch;

  void start(Call call, void* context, int most);
  void serve(Place& place);
  void work(Place& place);
  /// Evidence of the last task about the cores.
  void observe_task(std::int64_t begin_ns);
  /// True for the last worker to arrive, which releases the others.
  bool arrive();
  /// Waits until the signal is no longer `old`.
  void wait(Signal& signal, int old);
  void stop();

  int workers_ = 1;
  ThreadClock clock_;
  std::int64_t longest_spins_ = 0, shortest_spins_ = 0;
  bool pinned_ = false;
  bool watches_ = false;  // cores are watched at all
  WorkerCores cores_;
  std::vector<std::unique_ptr<Place>> places_;  // [core of cores_]
  // The running task:
  Call call_ = nullptr;
  void* context_ = nullptr;
  int active_ = 1;
  bool watched_ = false;
  bool stop_ = false;
  std::int64_t task_ns_ = 0, tasks_ = 0;  // of the last task; since the start
  // Each has a separate cache line, because different workers write them.
  alignas(64) std::atomic<std::int64_t> spins_{0};  // before a worker sleeps
  alignas(64) std::atomic<int> arrived_{0};         // workers waiting at the barrier
  Signal generation_;                               // raised by the last worker to arrive
};

}  // namespace ft
