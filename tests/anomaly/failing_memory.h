// Memory that ends when a test says so: the operators new and delete of the anomaly tests' program. They
// count what lives, and fail at one allocation or at all from one on. Owner: the program. Thread: any; a plan
// holds for all of them. Cost: two atomic additions an allocation.
#pragma once

namespace ft::test {

struct FailingAllocation {
  long n = 0;              // from now, the first is 1; 0: none fails
  bool all_after = false;  // and every later one
};

void plan_failure(FailingAllocation failing);
/// Ends the plan; whether its allocation was reached.
bool stop_failing();
/// Allocations that were not yet freed.
long live_allocations();

}  // namespace ft::test
