// What objects compiled against glibc 2.36 take from it and glibc 2.28 lacks, for a program that is linked
// for 2.28. Hidden: shared libraries of the system still find the system's own. Source: glibc's release notes
// and manual (pthread_cond_clockwait, _dl_find_object, single threading).
#include <ctime>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#define FT_HIDDEN __attribute__((visibility("hidden")))

namespace {

constexpr long kSecondNs = 1'000'000'000;

struct Search {
  ElfW(Addr) address;
  dl_find_object* found;
};

/// The object at the address, with its table for unwinding: 1 if it has one, -1 if not, 0 if it is another.
int look_at(dl_phdr_info* object, std::size_t, void* argument) {
  const Search& search = *static_cast<Search*>(argument);
  const auto place = [&](const ElfW(Phdr) & part) { return object->dlpi_addr + part.p_vaddr; };
  const ElfW(Phdr)* table = nullptr;
  const ElfW(Phdr)* code = nullptr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    if (part.p_type == PT_GNU_EH_FRAME) table = &part;
    if (part.p_type == PT_LOAD && search.address - place(part) < part.p_memsz) code = &part;
  }
  if (code == nullptr) return 0;
  if (table == nullptr) return -1;
  *search.found = {};
  search.found->dlfo_map_start = reinterpret_cast<void*>(place(*code));
  search.found->dlfo_map_end = reinterpret_cast<void*>(place(*code) + code->p_memsz);
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(place(*table));
  return 1;
}

}  // namespace

extern "C" {

/// 2.32. Zero: other threads may run, so reference counts stay atomic.
// NOLINTNEXTLINE(readability-identifier-naming): the name of glibc
FT_HIDDEN char __libc_single_threaded = 0;

/// 2.30. Older condition variables wait by the wall clock. The caller looks at its own clock afterwards and
/// waits again if it woke early; a step of the wall clock can make it wake late by that step.
FT_HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                     const timespec* until) {
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(condition, mutex, until);
  timespec now{}, wall{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &wall);
  wall.tv_sec += until->tv_sec - now.tv_sec;
  wall.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) {
    wall.tv_nsec += kSecondNs;
    --wall.tv_sec;
  } else if (wall.tv_nsec >= kSecondNs) {
    wall.tv_nsec -= kSecondNs;
    ++wall.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &wall);
}

/// 2.35. libgcc's unwinder calls it for each frame of a thrown exception: 0 if it is found.
FT_HIDDEN int _dl_find_object(void* address, dl_find_object* found) noexcept {
  Search search{reinterpret_cast<ElfW(Addr)>(address), found};
  return dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}

}  // extern "C"
