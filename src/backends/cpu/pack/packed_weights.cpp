#include "backends/cpu/pack/packed_weights.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

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

/// The key of equal packed weights: the stored weight by address, shape and a sample of its bytes (another
/// model may be mapped to the same address), the listed rows, and the packed shape.
std::string share_key(const Weight& weight, const std::vector<std::int32_t>& ids, const Packed& packed) {
  constexpr std::size_t kSample = 4096;
  const auto size = weight.from != nullptr
                        ? 0
                        : static_cast<std::size_t>(weight.rows * weight.cols * weight.stored_bits() / 8);
  const std::size_t sample = std::min(size, kSample);
  return fmt::format("{} {} {} {} {} {} {} {}x{} {} {} {} {} {:x} {:x} {:x} {} {} {} {}", weight.name,
                     static_cast<const void*>(weight.data), static_cast<const void*>(weight.scales),
                     static_cast<const void*>(weight.biases), static_cast<const void*>(weight.from.get()),
                     weight.from_row, format_name(weight.format), weight.rows, weight.cols, weight.bits,
                     weight.group, format_name(weight.scale_format), weight.offset,
                     checksum({weight.data, sample}), checksum({weight.data + (size - sample), sample}),
                     checksum(std::as_bytes(std::span(ids))), packed.rows, packed.bits, packed.group,
                     packed.requantised);
}

}  // namespace

std::shared_ptr<const PackedMemory> SharedWeights::find(const std::string& key, Packed& packed) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  std::shared_ptr<const PackedMemory> memory = found->second.memory.lock();
  if (memory) packed = found->second.packed;
  return memory;
}

void SharedWeights::add(std::string key, const Packed& packed,
                        const std::shared_ptr<const PackedMemory>& memory) {
  entries_.insert_or_assign(std::move(key), Entry{packed, memory});
}

void SharedWeights::tidy() {
  std::erase_if(entries_, [](const auto& entry) { return entry.second.memory.expired(); });
}

PackedWeights::~PackedWeights() {
  own_.reset();
  borrowed_.clear();
  shared_->tidy();
}

Status PackedWeights::add(const Weight& weight, const std::vector<std::int32_t>& ids, int max_weight_bits) {
  const std::int64_t rows = ids.empty() ? weight.rows : static_cast<std::int64_t>(ids.size());
  FT_ASSIGN(Packed packed, plan_pack(weight, rows, max_weight_bits));
  std::string key = share_key(weight, ids, packed);
  if (auto memory = shared_->find(key, packed)) {
    borrowed_.push_back(std::move(memory));
  } else if (const auto [own, first] = own_keys_.emplace(std::move(key), packed_.size()); !first) {
    again_.emplace_back(packed_.size(), own->second);
  } else {
    jobs_.push_back({weight, ids, bytes_, packed_.size()});
    bytes_ += round_up(packed.bytes(), 64);
  }
  packed_.push_back(packed);
  return {};
}

Status PackedWeights::fill(ThreadPool& pool, const PackedCacheOptions& packed_cache,
                           const PackProgress& progress, int memory_nodes) {
  const bool kept = !packed_cache.folder.empty() && bytes_ > 0;
  const PackedCacheKey key = kept ? this->key(packed_cache) : PackedCacheKey();
  if (kept) {
    Status mapped = map(pool, key);
    if (!mapped.ok()) {
      if (mapped.error().code != Code::kNotFound) log_warn(mapped.error().message);
      mapped = stream(pool, key, progress);
      if (mapped.ok()) mapped = map(pool, key);
    }
    if (mapped.ok()) {
      if (memory_nodes > 1) copy_near(pool);
      place();
      return {};
    }
    log_warn(mapped.error().message + "; the next start packs the weights again");
  }
  FT_TRY(pack(pool, progress));
  place();
  return {};
}

PackedCacheKey PackedWeights::key(const PackedCacheOptions& packed_cache) const {
  std::string layout;
  for (const Job& job : jobs_) {
    const Weight& weight = job.weight;
    const Packed& packed = packed_[job.index];
    layout +=
        fmt::format("{} {} {}x{} {} {} {} {} {} {} {:x}\n", weight.name, format_name(weight.format),
                    weight.rows, weight.cols, weight.bits, weight.group, format_name(weight.scale_format),
                    weight.offset, job.offset, packed.bytes(), checksum(std::as_bytes(std::span(job.ids))));
    if (packed.factor_groups > 0)
      layout += fmt::format("factors of {} groups, zero {}\n", packed.factor_groups, packed.zero);
    if (packed.requantised) layout += fmt::format("in {} bits, group {}\n", packed.bits, packed.group);
  }
  return PackedCacheKey::of(packed_cache, layout, bytes_ + kReadAheadBytes);
}

Status PackedWeights::map(ThreadPool& pool, const PackedCacheKey& key) {
  FT_ASSIGN(PackedFile file, PackedFile::open(key));
  FT_TRY(file.check(pool));
  own_->file = std::move(file);
  return {};
}

/// If there is no memory for a copy, the mapped file stays in use.
void PackedWeights::copy_near(ThreadPool& pool) {
  Memory memory = Memory::allocate(bytes_);
  if (memory.empty()) return;
  auto work = [&](int worker, int workers) {
    for (const Job& job : jobs_) {
      const Packed& packed = packed_[job.index];
      const std::int64_t begin = job.offset + packed.first_block(worker, workers) * packed.block_bytes;
      const std::int64_t end = job.offset + packed.first_block(worker + 1, workers) * packed.block_bytes;
      std::memcpy(memory.data() + begin, own_->file.data() + begin, static_cast<std::size_t>(end - begin));
    }
  };
  pool.run(work);
  own_->memory = std::move(memory);
  own_->file = PackedFile();
}

std::vector<PackScratch> PackedWeights::scratch_of(const ThreadPool& pool) const {
  PackScratch largest;
  for (const Job& job : jobs_) largest.fit(job.weight, packed_[job.index]);
  return std::vector<PackScratch>(static_cast<std::size_t>(pool.workers()), largest);
}

/// Every worker packs the blocks that it will read, so their memory is near its core.
void PackedWeights::pack_job(ThreadPool& pool, const Job& job, std::byte* to,
                             std::vector<PackScratch>& scratch) const {
  auto work = [&](int worker, int workers) {
    const Packed& packed = packed_[job.index];
    pack_blocks(job.weight, job.ids, packed, packed.first_block(worker, workers),
                packed.first_block(worker + 1, workers), to, scratch[static_cast<std::size_t>(worker)]);
  };
  pool.run(work);
}

Status PackedWeights::pack(ThreadPool& pool, const PackProgress& progress) {
  own_->memory = Memory::allocate(bytes_);
  if (own_->memory.empty()) {
    return Error{Code::kExhausted,
                 fmt::format("cpu backend: no memory for {:.2f} GB of packed weights; use a smaller model or "
                             "one with fewer bits",
                             static_cast<double>(bytes_) * 1e-9)};
  }
  std::vector<PackScratch> scratch = scratch_of(pool);
  for (const Job& job : jobs_) {
    tell(progress, kPacking, job.offset, bytes_);
    pack_job(pool, job, own_->memory.data() + job.offset, scratch);
  }
  tell(progress, kPacking, bytes_, bytes_);
  return {};
}

/// Memory: the largest weight.
Status PackedWeights::stream(ThreadPool& pool, const PackedCacheKey& key,
                             const PackProgress& progress) const {
  FT_ASSIGN(PackedWriter writer, PackedWriter::open(key));
  std::int64_t largest = 0;
  for (const Job& job : jobs_) largest = std::max(largest, round_up(packed_[job.index].bytes(), 64));
  const Memory memory = Memory::allocate(largest);
  if (memory.empty()) return Error{Code::kExhausted, key.path + ": no memory for its largest weight"};
  std::vector<PackScratch> scratch = scratch_of(pool);
  for (const Job& job : jobs_) {
    tell(progress, kPacking, job.offset, bytes_);
    const auto bytes = static_cast<std::size_t>(round_up(packed_[job.index].bytes(), 64));
    std::memset(memory.data(), 0, bytes);
    pack_job(pool, job, memory.data(), scratch);
    FT_TRY(writer.append({memory.data(), bytes}));
  }
  tell(progress, kPacking, bytes_, bytes_);
  tell(progress, kWriting, bytes_, key.bytes);
  FT_TRY(writer.finish());
  tell(progress, kWriting, key.bytes, key.bytes);
  log_info(key.path + ": written; later starts map it too");
  return {};
}

/// Registers the weights for this program and for later ones.
void PackedWeights::place() {
  for (const Job& job : jobs_) {
    Packed& packed = packed_[job.index];
    packed.data = own_->data() + job.offset;
    shared_->add(share_key(job.weight, job.ids, packed), packed, own_);
  }
  for (const auto& [copy, original] : again_) packed_[copy].data = packed_[original].data;
  jobs_.clear();
  again_.clear();
  own_keys_.clear();
}

}  // namespace ft::cpu
