// How much memory a program may take here: what the machine has left, or what is left under the tightest
// cgroup v2 limit above this process, whichever is less. Thread: any. Cost: a few small files read. Errors:
// what cannot be read does not limit.
#pragma once

#include <cstdint>
#include <string>

namespace ft {

/// Bytes; 0: nothing is known. `root` stands for / in tests.
std::int64_t available_memory(const std::string& root = "/");

}  // namespace ft
