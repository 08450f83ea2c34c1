#include "backends/cpu/pack/packed_weights.h"

#include <atomic>
#include <filesystem>
#include <fmt/format.h>

#include "backends/cpu/partition.h"
#include "base/checksum.h"
#include "base/log.h"

namespace ft::cpu {
namespace {

constexpr const char* kPacking = "packing weights";
constexpr const char* kWriting = "writing the packed-weight cache";

/// Progress is only for display, so its failure must not end the work, least of all between workers.
void tell(const PackProgress& progress, const char* task, std::int64_t done, std::int64_t total) {
  if (!progress) return;
  try {
    progress(task, done, total);
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
}

}  // namespace

Status PackedWeights::add(const Weight& weight, const std::vector<std::int32_t>& ids, int max_weight_bits) {
  const std::int64_t rows = ids.empty() ? weight.rows : static_cast<std::int64_t>(ids.size());
  FT_ASSIGN(const Packed packed, plan_pack(weight, rows, max_weight_bits));
  jobs_.push_back({weight, ids, bytes_});
  packed_.push_back(packed);
  bytes_ += round_up(packed.bytes(), 64);
  return {};
}

Status PackedWeights::fill(ThreadPool& pool, const PackedCacheOptions& packed_cache,
                           const PackProgress& progress) {
  const bool kept = !packed_cache.folder.empty() && bytes_ > 0;
  const PackedCacheKey key = kept ? this->key(packed_cache) : PackedCacheKey();
  if (kept) {
    const Status mapped = map(pool, key);
    if (mapped.ok()) return {};
    if (mapped.error().code != Code::kNotFound) log_warn(mapped.error().message);
  }
  FT_TRY(pack(pool, progress));
  if (kept) {
    const Status written = keep(pool, key, progress);
    if (!written.ok()) log_warn(written.error().message + "; the next start packs the weights again");
  }
  jobs_.clear();
  return {};
}

PackedCacheKey PackedWeights::key(const PackedCacheOptions& packed_cache) const {
  std::string layout;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const Weight& weight = jobs_[i].weight;
    const std::vector<std::int32_t>& ids = jobs_[i].ids;
    layout += fmt::format("{} {} {}x{} {} {} {} {} {} {} {:x}\n", weight.name, format_name(weight.format),
                          weight.rows, weight.cols, weight.bits, weight.group,
                          format_name(weight.scale_format), weight.offset, jobs_[i].offset,
                          packed_[i].bytes(), checksum(std::as_bytes(std::span(ids))));
    if (packed_[i].requantised)
      layout += fmt::format("in {} bits, group {}\n", packed_[i].bits, packed_[i].group);
  }
  PackedCacheKey key;
  const std::string file = packed_cache.name + "-" +
                           fingerprint(packed_cache.place + "\n" + layout).substr(0, 16) + kPackedFileSuffix;
  key.path = (std::filesystem::path(packed_cache.folder) / file).string();
  key.source = packed_cache.source;
  key.layout = fingerprint(layout);
  key.bytes = bytes_ + kReadAheadBytes;
  return key;
}

Status PackedWeights::map(ThreadPool& pool, const PackedCacheKey& key) {
  FT_ASSIGN(PackedFile file, PackedFile::open(key));
  std::atomic<int> bad{-1};
  auto work = [&file, &bad](int worker, int workers) {
    const Range range = partition(file.pieces(), 1, worker, workers);
    for (std::int64_t piece = range.first; piece < range.last; ++piece) {
      if (!file.intact(static_cast<int>(piece))) bad.store(static_cast<int>(piece));
    }
  };
  pool.run(work);
  if (bad >= 0) {
    return Error{Code::kCorrupt,
                 fmt::format("{}: the piece at byte {} of its weights is damaged; the weights "
                             "are packed again",
                             key.path, bad * kPieceBytes)};
  }
  file_ = std::move(file);
  place(file_.data());
  jobs_.clear();
  return {};
}

/// Every worker packs the blocks that it will read, so their memory is near its core.
Status PackedWeights::pack(ThreadPool& pool, const PackProgress& progress) {
  memory_ = Memory::allocate(bytes_);
  if (memory_.empty()) {
    return Error{Code::kExhausted,
                 fmt::format("cpu backend: no memory for {:.2f} GB of packed weights; use a smaller model or "
                             "one with fewer bits",
                             static_cast<double>(bytes_) * 1e-9)};
  }
  PackScratch largest;
  for (const Packed& packed : packed_) largest.fit(packed);
  std::vector<PackScratch> scratch(static_cast<std::size_t>(pool.workers()), largest);
  auto work = [this, &scratch, &progress](int worker, int workers) {
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const Packed& packed = packed_[i];
      if (worker == 0) tell(progress, kPacking, jobs_[i].offset, bytes_);
      pack_blocks(jobs_[i].weight, jobs_[i].ids, packed, packed.first_block(worker, workers),
                  packed.first_block(worker + 1, workers), memory_.data() + jobs_[i].offset,
                  scratch[static_cast<std::size_t>(worker)]);
    }
  };
  pool.run(work);
  tell(progress, kPacking, bytes_, bytes_);
  place(memory_.data());
  return {};
}

Status PackedWeights::keep(ThreadPool& pool, const PackedCacheKey& key, const PackProgress& progress) const {
  const std::span<const std::byte> data(memory_.data(), static_cast<std::size_t>(key.bytes));
  std::vector<std::uint64_t> checksums(static_cast<std::size_t>(piece_count(key.bytes)));
  auto work = [&](int worker, int workers) {
    const Range range = partition(static_cast<std::int64_t>(checksums.size()), 1, worker, workers);
    for (std::int64_t piece = range.first; piece < range.last; ++piece) {
      checksums[static_cast<std::size_t>(piece)] = checksum(piece_of(data, static_cast<int>(piece)));
    }
  };
  pool.run(work);
  const auto told = [&](std::int64_t done) { tell(progress, kWriting, done, key.bytes); };
  const Status written = write_packed(key, data, checksums, told);
  tell(progress, kWriting, key.bytes, key.bytes);
  if (written.ok()) log_info(key.path + ": written; the next start maps it");
  return written;
}

void PackedWeights::place(const std::byte* data) {
  for (std::size_t i = 0; i < packed_.size(); ++i) packed_[i].data = data + jobs_[i].offset;
}

}  // namespace ft::cpu
