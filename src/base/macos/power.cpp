// macOS tells neither clocks nor counts to a program without root.
#include "base/power.h"

namespace ft {

PowerFacts power_facts(const std::string& root) {
  static_cast<void>(root);
  return {};
}

}  // namespace ft
