#include "base/heavy_work.h"

namespace ft {
namespace {

thread_local unsigned elsewhere = 0;  // bit k: HeavyWork k

unsigned bit(HeavyWork work) { return 1U << static_cast<unsigned>(work); }

}  // namespace

HeavyWorkElsewhere::HeavyWorkElsewhere(std::initializer_list<HeavyWork> kinds) : before_(elsewhere) {
  for (const HeavyWork kind : kinds) elsewhere |= bit(kind);
}
HeavyWorkElsewhere::~HeavyWorkElsewhere() { elsewhere = before_; }

void begin_heavy_work(HeavyWork work) {
  if (is_elsewhere(work)) throw HeavyWorkNeeded{work};
}

bool is_elsewhere(HeavyWork work) { return (elsewhere & bit(work)) != 0; }

}  // namespace ft
