// The reference backend: readable float32 on one thread, the oracle of the others. It is slow by design.
#pragma once

#include "program/backend.h"

namespace ft {

std::unique_ptr<Backend> make_ref_backend();

}  // namespace ft
