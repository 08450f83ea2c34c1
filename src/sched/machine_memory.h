// The memory that a program may take here: the machine's free memory, or the rest under the tightest
// cgroup v2 limit above this process, whichever is less. Cost: reads a few small files. An unreadable file
// does not limit.
#pragma once

#include <cstdint>
#include <string>

namespace ft {

/// Bytes; 0 if nothing is known. Tests pass another `root` instead of /.
std::int64_t available_memory(const std::string& root = "/");

}  // namespace ft
