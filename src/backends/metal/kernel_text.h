// The text of the kernels as Metal's compiler takes it, in one piece (backends/metal/kernel_text.cmake).
#pragma once

#include <string>

namespace ft::metal {

const std::string& kernel_text();

}  // namespace ft::metal
