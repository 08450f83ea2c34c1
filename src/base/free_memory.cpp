#include "base/free_memory.h"

#include <cstdlib>  // __GLIBC__
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace ft {

void return_free_memory() {
#ifdef __GLIBC__
  (void)malloc_trim(0);
#endif
}

}  // namespace ft
