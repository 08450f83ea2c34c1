// Checks that a GPU computes as the kernels promise: small programs give the twin's results within a
// tolerance, and each row has the same bits alone and among others. One program with every kind of state is
// run at the start, one for each format of a model's matrices before the model is loaded.
// Cost: the kernels of these formats are compiled, and some ten small steps a program.
#pragma once

#include <vector>

#include "backends/metal/device.h"
#include "backends/test_programs.h"

namespace ft::metal {

/// kUnsupported with the device's name and the difference.
Status self_test(const std::shared_ptr<Device>& device);
/// The same by programs of these shapes.
Status self_test(const std::shared_ptr<Device>& device, const std::vector<TestShape>& shapes, int kv_bits);
/// Shapes whose programs launch the kernels of `program`: its formats, heads, windows, keys and experts.
std::vector<TestShape> shapes_of(const Program& program);

}  // namespace ft::metal
