// Compiled pipelines in a file (MTLBinaryArchive), so that a later start finds them instead of compiling.
// macOS has a pipeline cache too, which it may empty at any time. A missing pipeline, a damaged file or a
// folder that refuses writing only cost time: the device then compiles as if there were no archive. Owner:
// the device; its thread. Cost of keep(): writing a file, only after a new pipeline.
#pragma once

#include <string>
#include <string_view>

#include "backends/metal/macos/objective_c.h"

namespace ft::metal {

class PipelineArchive {
 public:
  /// `key`: everything that the pipelines depend on, except the system, which Metal checks. An empty folder:
  /// nothing is kept.
  void open(Object device, const std::string& folder, std::string_view key);
  /// The pipeline of a function. Empty: the archive lacks it.
  Owned find(Object function) const;
  /// For the next keep().
  void add(Object function);
  void keep();

 private:
  bool load(Object from);

  Object device_ = nullptr;
  Owned archive_, list_;  // list_: the NSArray of it that descriptors take
  std::string path_;
  bool grown_ = false;
};

}  // namespace ft::metal
