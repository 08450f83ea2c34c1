// The threads of one threadgroup on the host: fibres that meet in shuffles and barriers, in an order that a
// seed chooses. It proves the kernels' results, but cannot show races that need two real processors.
// Thread: each has its own; one group at a time. Cost: about 15 ns a meeting and thread.
#pragma once

#include <functional>

namespace ft::metal {

/// Runs body(thread) for each thread of a group. False: threads wait for others that never come.
bool run_group(int threads, const std::function<void(int)>& body);
/// The order in which fibres of later groups run: 0 is ascending; any other number seeds a shuffle.
void set_fibre_order(unsigned seed);

/// Called by kernels. exchange: the `x` of the lane whose number differs in the bits of `distance`.
float exchange(float x, int distance);
void wait_for_group();

}  // namespace ft::metal
