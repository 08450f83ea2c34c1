#include "lab/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <sys/mman.h>

#include "base/machine_facts.h"
#include "format/widest.h"

namespace ft {
namespace {

constexpr std::int64_t kPage = std::int64_t{2} << 20;
constexpr std::int64_t kMinBytes = std::int64_t{256} << 20;
constexpr std::int64_t kReadBytes = 3 * kMinBytes;  // at least, in a probe
constexpr int kSpinUs = 40;                         // the cores belong to another pool between two probes

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

std::size_t probe_bytes(std::int64_t last_cache, std::int64_t free_memory) {
  const std::int64_t wanted = std::max(2 * last_cache, kMinBytes);
  const std::int64_t whole = std::min(wanted, std::max(free_memory / 4, kMinBytes)) / kPage * kPage;
  return static_cast<std::size_t>(whole);
}

BandwidthProbe::BandwidthProbe(int threads, Backend* backend)
    : pool_(threads, kSpinUs),
      backend_(backend),
      bytes_(probe_bytes(processor_facts().last_cache, memory_facts().available)),
      data_(nullptr) {
  void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  madvise(data, bytes_, MADV_HUGEPAGE);
#endif
  data_ = data;
  auto fill = [data, all = bytes_](int worker,
                                   int workers) {  // each its own part, near its core on several memory nodes
    const std::size_t bytes = all / static_cast<std::size_t>(workers);
    std::memset(static_cast<std::byte*>(data) + bytes * static_cast<std::size_t>(worker), 1, bytes);
  };
  pool_.run(fill);
}

BandwidthProbe::~BandwidthProbe() { munmap(data_, bytes_); }

double BandwidthProbe::gb_per_s() {
  if (const double own = backend_ == nullptr ? 0 : backend_->measured_bandwidth_gb_s(); own > 0) return own;
  const auto passes = std::max<std::int64_t>(1, kReadBytes / static_cast<std::int64_t>(bytes_));
  std::atomic<std::uint64_t> kept{0};  // keeps the loops from being optimised away
  auto work = [&](int worker, int workers) {
    const std::size_t words = bytes_ / sizeof(std::uint64_t) / static_cast<std::size_t>(workers);
    const auto* from = static_cast<const std::uint64_t*>(data_) + words * static_cast<std::size_t>(worker);
    for (std::int64_t pass = 0; pass < passes; ++pass) kept += sum_of(from, words);
  };
  const auto begin = std::chrono::steady_clock::now();
  pool_.run(work);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return kept.load() == 0 ? 0
                          : static_cast<double>(bytes_) * static_cast<double>(passes) / took.count() / 1e9;
}

}  // namespace ft
