// Work that takes long or waits for another server, and that some threads must not do. The code that begins
// such work calls begin_heavy_work(), which throws on these threads. The server then runs the request again
// on a thread that may. A request's lane thus follows from its work, not from a search of its text.
#pragma once

#include <initializer_list>

namespace ft {

enum class HeavyWork {
  kFetch,    // waits for another server
  kGrammar,  // compiles a grammar of a client
  kRender,   // renders a chat template that takes unusually long
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

/// Whether this thread leaves work of this kind to others, so that begin_heavy_work() would throw.
bool is_elsewhere(HeavyWork work);

}  // namespace ft
