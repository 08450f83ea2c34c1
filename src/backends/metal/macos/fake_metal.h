// An Objective-C runtime with as much of Metal as macos/device.cpp uses, for tests on other systems. Objects
// count their references, the twin's kernels compute when somebody waits, and each message that Metal's
// documentation forbids is written down. It cannot show what Apple's compiler or a GPU does. Thread: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ft::metal {

struct FakeGpu {
  std::string name = "Apple M1";
  int family = 7;
  std::uint64_t working_set = 5461ULL << 20, max_buffer = 4096ULL << 20;
  bool exists = true, has_queue = true;
  bool is_macos_14 = false;         // MTLCompileOptions without setMathMode:
  bool takes_pages = true;          // newBufferWithBytesNoCopy
  bool has_archives = true;         // newBinaryArchiveWithDescriptor
  std::string compile_error = {};   // of the whole text
  std::string refused_kernel = {};  // gets no pipeline
  std::string failure = {};         // of the next command buffer that runs

  // Recorded events.
  std::vector<std::string> breaches = {};
  int compiled = 0, from_archive = 0;  // pipelines
  int launches = 0, command_buffers = 0;
  int look_ups = 0;       // of selectors
  std::string math = {};  // how the text was compiled: "safe precise" or "no fast math"
};

/// The GPU that Runtime::get() leads to.
FakeGpu& fake_gpu();
/// Another GPU, without any object of the one before.
void reset_fake_gpu(FakeGpu gpu = {});
/// Objects that still have references, by class: none after a device is gone.
std::string living_objects();

}  // namespace ft::metal
