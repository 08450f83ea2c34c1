// ThreadPool: a fixed set of workers that share one task at a time. The thread that calls run() is worker 0;
// the others start once, each pinned to its own core where there are enough. Between tasks and at barriers a
// worker spins for some tens of microseconds and then sleeps in the kernel, so an oversubscribed machine
// makes progress. Owner: a backend. Thread: one thread at a time may call run(); barrier() only from inside
// the task. Cost: run() and barrier() allocate nothing and take no lock. Errors: the constructor throws
// std::system_error if the machine refuses a thread; the task must not throw.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

namespace ft {

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
  void barrier();

 private:
  using Call = void (*)(void* context, int worker, int workers);

  void start(Call call, void* context);
  void serve(int worker, int core);
  /// Waits until `word` is no longer `old`.
  void wait(const std::atomic<int>& word, int old) const;

  int workers_ = 1;
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
