// How much processor time other programs used during a measurement, which makes figures of a shared machine
// less certain. 0 if the system does not report it.
#pragma once

#include <string>

namespace ft {

class Contention {
 public:
  /// Starts counting now.
  Contention() : begin_(now()) {}
  /// Share of the processor time used by others since the start, 0 to 1.
  double others_share() const;

  struct Times {
    double own_s = 0, busy_s = 0, all_s = 0;  // this process; all processes; all cores with idle time
  };
  static double share(const Times& begin, const Times& end);

 private:
  static Times now();
  Times begin_;
};

/// A warning if others used more than a twentieth; empty otherwise.
std::string contention_note(double others_share);

}  // namespace ft
