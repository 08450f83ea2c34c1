#include <dlfcn.h>
#include <type_traits>

#include "backends/metal/macos/objective_c.h"

namespace ft::metal {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool open(Runtime& runtime) {
  void* const objects = ::dlopen("/usr/lib/libobjc.A.dylib", RTLD_NOW);
  void* const foundation = ::dlopen("/System/Library/Frameworks/Foundation.framework/Foundation", RTLD_NOW);
  void* const metal = ::dlopen("/System/Library/Frameworks/Metal.framework/Metal", RTLD_NOW);
  if (objects == nullptr || foundation == nullptr || metal == nullptr) return false;
  return find(objects, "objc_lookUpClass", runtime.look_up_class) &&
         find(objects, "sel_registerName", runtime.register_selector) &&
         find(objects, "objc_msgSend", runtime.send) &&
         find(objects, "objc_autoreleasePoolPush", runtime.push_pool) &&
         find(objects, "objc_autoreleasePoolPop", runtime.pop_pool) &&
         find(metal, "MTLCreateSystemDefaultDevice", runtime.default_device);
}

}  // namespace

const Runtime* Runtime::get() {
  static Runtime runtime;
  static const bool opened = open(runtime);
  return opened ? &runtime : nullptr;
}

}  // namespace ft::metal
