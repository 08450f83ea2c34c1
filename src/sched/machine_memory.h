// How much memory a program may take here: what the machine has left, or what is left under the tightest
// cgroup v2 limit above this process, whichever is less. Cost: reads a few small files. What cannot be read
// does not limit.
#pragma once

#include <cstdint>
#include <string>

namespace ft {

/// Bytes; 0 if nothing is known. Tests pass another `root` instead of /.
std::int64_t available_memory(const std::string& root = "/");

}  // namespace ft
