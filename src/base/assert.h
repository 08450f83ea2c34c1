// FT_ASSERT: a mistake of ours, never of the input. On in debug and sanitizer builds (FORETOKEN_ASSERTS),
// free otherwise. Prints the expression and place, then aborts.
#pragma once

namespace ft {

[[noreturn]] void assertion_failed(const char* expression, const char* file, int line);

}  // namespace ft

#ifdef FORETOKEN_ASSERTS
#define FT_ASSERT(expression) \
  ((expression) ? static_cast<void>(0) : ::ft::assertion_failed(#expression, __FILE__, __LINE__))
#else
#define FT_ASSERT(expression) static_cast<void>(sizeof(!(expression)))
#endif
