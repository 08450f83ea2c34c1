// How much of the processors other programs took while something was timed: what makes a figure of a shared
// machine worth less. Owner: who measures. Thread: any, one at a time. Cost: one small file a call. Errors:
// none; 0 where the system does not say.
#pragma once

#include <string>

namespace ft::cli {

class Contention {
 public:
  /// Counts from now on.
  Contention() : begin_(now()) {}
  /// 0..1: processor time of others over that of all cores, since the beginning.
  double others_share() const;

  struct Times {
    double own_s = 0, busy_s = 0, all_s = 0;  // this process; every process; all cores, idle too
  };
  /// The first line of /proc/stat; `tick` is a second's clock ticks.
  static Times read_stat(const std::string& text, double own_s, double ticks);
  static double share(const Times& begin, const Times& end);

 private:
  static Times now();
  Times begin_;
};

/// A warning for people if others took more than a twentieth; empty otherwise.
std::string contention_note(double others_share);

}  // namespace ft::cli
