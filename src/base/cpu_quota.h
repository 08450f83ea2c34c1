// The processor time that control groups grant this process, as containers set it (`docker run --cpus 4`): a
// process with more busy threads is stopped for the rest of each period, and all its threads wait. Versions 1
// and 2, the tightest group above this process. Cost: reads a few small files. An unreadable file means no
// limit.
#pragma once

#include <string>

namespace ft {

/// In cores; 0: no limit. Tests pass another `root` instead of /.
double cpu_quota(const std::string& root = "/");

/// How many of `cores` may be busy all the time, at least 1.
int cores_within(double quota, int cores);

}  // namespace ft
