// Memory that runs out at a chosen time: the operators new and delete of the anomaly tests. They count live
// allocations, and fail at one allocation or at all from one on. A plan applies to all threads. An allocation
// costs two atomic additions.
#pragma once

namespace ft::test {

struct FailingAllocation {
  long n = 0;              // index from now, the first is 1; 0: none fails
  bool all_after = false;  // also every later one
};

void plan_failure(FailingAllocation failing);
/// Ends the plan; returns whether its allocation was reached.
bool stop_failing();
/// Allocations not freed yet.
long live_allocations();

}  // namespace ft::test
