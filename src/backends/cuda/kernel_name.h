// Names of kernels that are put together: text that lives for ever, as Launch wants it.
#pragma once

#include <string>

namespace ft::cuda {

const char* kernel_name(std::string name);

}  // namespace ft::cuda
