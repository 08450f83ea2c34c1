#include "lab/bandwidth.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <sys/mman.h>

#include "format/widest.h"

namespace ft {
namespace {

constexpr int kSpinUs = 40;  // the cores belong to another pool between two probes

// Narrow loads are a fifth slower.
FT_WIDEST std::uint64_t sum_of(const std::uint64_t* from, std::size_t words) {
  std::uint64_t sums[32] = {};
  for (std::size_t i = 0; i + 32 <= words; i += 32) {
    for (std::size_t j = 0; j < 32; ++j) sums[j] += from[i + j];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

}  // namespace

BandwidthProbe::BandwidthProbe(int threads, Backend* backend)
    : pool_(threads, kSpinUs), backend_(backend), data_(nullptr) {
  void* data = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(data, kBytes, MADV_HUGEPAGE);
#endif
  data_ = data;
  auto fill = [data](int worker, int workers) {  // each its part: on several memory nodes it is near
    const std::size_t bytes = kBytes / static_cast<std::size_t>(workers);
    std::memset(static_cast<std::byte*>(data) + bytes * static_cast<std::size_t>(worker), 1, bytes);
  };
  pool_.run(fill);
}

BandwidthProbe::~BandwidthProbe() { munmap(data_, kBytes); }

double BandwidthProbe::gb_per_s() {
  if (const double own = backend_ == nullptr ? 0 : backend_->memory_gb_per_s(); own > 0) return own;
  constexpr int kPasses = 3;
  std::atomic<std::uint64_t> kept{0};  // keeps the loops from being optimised away
  auto work = [&](int worker, int workers) {
    const std::size_t words = kBytes / sizeof(std::uint64_t) / static_cast<std::size_t>(workers);
    const auto* from = static_cast<const std::uint64_t*>(data_) + words * static_cast<std::size_t>(worker);
    for (int pass = 0; pass < kPasses; ++pass) kept += sum_of(from, words);
  };
  const auto begin = std::chrono::steady_clock::now();
  pool_.run(work);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return kept.load() == 0 ? 0 : static_cast<double>(kBytes) * kPasses / took.count() / 1e9;
}

}  // namespace ft
