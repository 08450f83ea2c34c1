// Asks a GPU at the start whether it computes what the kernels promise: a small program with every kind of
// state gives the twin's results within a tolerance, and each row has the same bits alone and among others.
// Cost: the kernels of two formats are compiled, and some ten small steps.
#pragma once

#include "backends/metal/device.h"

namespace ft::metal {

/// kUnsupported with the device's name and what differs.
Status self_test(const std::shared_ptr<Device>& device);

}  // namespace ft::metal
