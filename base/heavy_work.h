// Work that takes long or waits for others, and that some threads must leave to others. Whoever begins it
// says so; where it is not allowed this throws, and the server runs the request again where such work is
// due. So the lane of a request follows from what the request does, not from a look at its text.
#pragma once

#include <initializer_list>

namespace ft {

enum class HeavyWork {
  kFetch,    // waits for another server
  kGrammar,  // compiles a grammar of a client
};

/// Thrown by begin_heavy_work(). Not a std::exception: nothing has failed.
struct HeavyWorkNeeded {
  HeavyWork work = HeavyWork::kFetch;
};

/// While it lives, its thread leaves work of these kinds to others. A thread without one does everything.
class HeavyWorkElsewhere {
 public:
  HeavyWorkElsewhere(std::initializer_list<HeavyWork> kinds);
  ~HeavyWorkElsewhere();
  HeavyWorkElsewhere(const HeavyWorkElsewhere&) = delete;
  HeavyWorkElsewhere& operator=(const HeavyWorkElsewhere&) = delete;

 private:
  const unsigned before_;
};

void begin_heavy_work(HeavyWork work);

}  // namespace ft
