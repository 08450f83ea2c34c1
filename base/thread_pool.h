// ThreadPool: a fixed set of workers that share one task at a time. The thread that calls run() is worker 0;
// the others start once, each pinned to its own core where there are enough. Worker 0 keeps its core during a
// task, because a thread that the system may move takes the core of a worker that sleeps, and then the two
// wait for each other at every barrier. Between tasks and at barriers a worker spins for some tens of
// microseconds and then sleeps in the kernel, so an oversubscribed machine makes progress. Owner: a backend.
// Thread: one thread at a time may call run(); barrier() only from inside the task. Cost: run() and barrier()
// allocate nothing and take no lock; run() asks the system three times to keep its core. Errors: the
// constructor throws std::system_error if the machine refuses a thread; the task must not throw.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

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

class ThreadPool {
 public:
  /// `workers` includes the caller; 0 means one per usable core. spin_us: 0 sleeps at once.
  explicit ThreadPool(int workers = 0, int spin_us = 40);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int workers() const { return workers_; }

  /// Calls work(worker, workers) once on every worker and returns when all have returned.
  template <class Work>
  void run(Work& work) {
    start([](void* context, int worker, int workers) { (*static_cast<Work*>(context))(worker, workers); },
          &work);
  }

  /// Returns when every worker has called it equally often. Writes before it are visible to all after it.
  void barrier() {
    barrier([] { return false; });
  }
  /// The same. A worker that waits calls idle() again and again until it returns false.
  template <class Idle>
  void barrier(const Idle& idle) {
    if (workers_ == 1) return;
    // This must be read before arriving, because the last worker to arrive may raise it at once.
    const int generation = generation_.load(std::memory_order_acquire);
    if (arrive()) return;
    while (generation_.load(std::memory_order_acquire) == generation && idle()) {
    }
    wait(generation_, generation);
  }

 private:
  using Call = void (*)(void* context, int worker, int workers);

  void start(Call call, void* context);
  void serve(int worker, int core);
  /// True for the last worker to arrive, which lets the others go on.
  bool arrive();
  /// Waits until `word` is no longer `old`.
  void wait(const std::atomic<int>& word, int old) const;

  int workers_ = 1;
  int own_core_ = -1;  // of worker 0 during a task; below 0: any
  long spins_ = 0;
  Call call_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  // Each has a cache line of its own, because different workers write them.
  alignas(64) std::atomic<int> epoch_{0};       // raised by start()
  alignas(64) std::atomic<int> arrived_{0};     // workers waiting at the barrier
  alignas(64) std::atomic<int> generation_{0};  // raised by the last worker to arrive
  std::vector<std::thread> threads_;
};

}  // namespace ft
