// FileAhead: lets the disk work on the next weights while the workers pack one. A thread asks the system to
// read the files in the order of packing, at most kAheadBytes beyond the weight that is being packed, because
// every system reads ahead of a mapped file by itself, but some only little. Owner: who packs; the weights
// must outlive it. Cost: a thread that mostly waits. If it cannot start, the weights are read all the same.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "program/weight.h"

namespace ft::cpu {

class FileAhead {
 public:
  static constexpr std::int64_t kAheadBytes = 256 << 20;

  /// The weights in the order of packing.
  explicit FileAhead(std::vector<const Weight*> weights);
  ~FileAhead();
  FileAhead(const FileAhead&) = delete;
  FileAhead& operator=(const FileAhead&) = delete;

  /// The weight of this index is packed next.
  void reached(std::size_t index);

 private:
  void run();
  /// False: this object ends.
  bool wait_until_near(std::int64_t at);

  std::vector<const Weight*> weights_;
  std::vector<std::int64_t> begins_;  // of weights_: bytes before each
  std::mutex mutex_;
  std::condition_variable moved_;
  std::int64_t packed_ = 0;  // bytes before the weight that is being packed
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace ft::cpu
