// FT_WIDEST before a function: one copy of it for each vector width, chosen when the program starts. The
// compiler vectorises plain loops in each copy, and contraction is off, so all copies give the same bits.
// Sanitizers start before the choice can be made, and clang lacks it for inlined functions: one copy there.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define FT_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FT_WIDEST
#endif
