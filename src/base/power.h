// Clocks of the processor and whether it slows itself down: a source for Linux (base/linux) and one for macOS
// (base/macos). Unreadable values stay empty, 0 or -1, as in most virtual machines. Thread: any. Cost: four
// small files a core.
#pragma once

#include <cstdint>
#include <string>

namespace ft {

struct PowerFacts {
  std::string governor;               // of core 0: "performance", "powersave"
  double mhz = 0, highest_mhz = 0;    // mean of all cores now; the maximum of any core
  std::int64_t throttled_times = -1;  // because of heat or power, since the system started; -1: unknown
};

/// root: another folder in place of /, for tests.
PowerFacts power_facts(const std::string& root = "");

/// "3.1 of 3.8 GHz, slowed down 12 times since the system started"; "not readable".
std::string clock_text(const PowerFacts& facts);

}  // namespace ft
