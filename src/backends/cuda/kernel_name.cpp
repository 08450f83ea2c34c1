#include "backends/cuda/kernel_name.h"

#include <unordered_set>
#include <utility>

namespace ft::cuda {

const char* kernel_name(std::string name) {
  static std::unordered_set<std::string> names;
  return names.insert(std::move(name)).first->c_str();
}

}  // namespace ft::cuda
