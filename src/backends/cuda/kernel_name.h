// Names of kernels put together from parts: text that lives for ever, as Launch requires.
#pragma once

#include <string>

namespace ft::cuda {

const char* kernel_name(std::string name);

}  // namespace ft::cuda
