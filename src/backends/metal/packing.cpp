#include "backends/metal/packing.h"

#include <fmt/format.h>
#include <set>
#include <string>
#include <utility>

#include "base/log.h"

namespace ft::metal {
namespace {

/// Must be raised when the same weights are packed into other bytes (weights.cpp).
constexpr int kLayoutVersion = 1;

/// The weights of one instruction in order of describe(): an absent optional one is not there.
struct Wanted final : Describer {
  void vector(const Weight& weight, std::int64_t) override { vectors.push_back(weight); }
  void table(const Weight& weight, std::int64_t) override { matrices.push_back({weight}); }
  void matrix(const Weight& weight, std::int64_t, std::int64_t, std::int64_t) override {
    matrices.push_back({weight});
  }
  void experts(std::span<const Weight> weights, std::int64_t, std::int64_t, int) override {
    matrices.emplace_back(weights.begin(), weights.end());
  }
  std::vector<Weight> vectors;
  std::vector<std::vector<Weight>> matrices;
};

/// Bytes that a part of `bytes` takes in the file.
std::size_t in_pages(std::size_t bytes) {
  constexpr auto kPage = static_cast<std::size_t>(kPackedPageBytes);
  return (bytes + kPage - 1) / kPage * kPage;
}

std::string layout_of(const Weight& weight) {
  return fmt::format("{} {} {}x{} {} {} {} ", weight.name, format_name(weight.format), weight.rows,
                     weight.cols, weight.bits, weight.group, format_name(weight.scale_format));
}

Status append(PackedWriter& writer, const Memory& memory, std::size_t bytes) {
  FT_TRY(writer.append({memory.data(), bytes}));
  return writer.append(std::vector<std::byte>(in_pages(bytes) - bytes));
}

}  // namespace

Packing::Key Packing::key_of(std::span<const Weight> weights) {
  const Weight& first = weights.front();
  const void* at = first.from != nullptr ? static_cast<const void*>(first.from.get()) : first.data;
  return {at, first.from_row, first.rows, first.cols, first.format, first.bits, first.group, weights.size()};
}

Result<std::shared_ptr<const PackedMatrix>> Packing::matrix(std::span<const Weight> weights) {
  std::shared_ptr<const PackedMatrix>& known = packed_[key_of(weights)];
  if (known == nullptr) {
    FT_ASSIGN(PackedMatrix packed, pack(device_, *pool_, weights));
    bytes_ += static_cast<std::int64_t>(packed.bytes());
    known = std::make_shared<const PackedMatrix>(std::move(packed));
  }
  return known;
}

Result<Parts> Packing::parts(const Instruction& instruction) {
  Wanted wanted;
  describe(instruction, wanted);
  Parts parts;
  for (const Weight& weight : wanted.vectors) {
    FT_ASSIGN(Memory memory, pack_vector(device_, weight));
    bytes_ += static_cast<std::int64_t>(memory.bytes());
    parts.vectors.push_back(std::move(memory));
  }
  for (const std::vector<Weight>& weights : wanted.matrices) {
    FT_ASSIGN(auto packed, matrix(weights));
    parts.matrices.push_back(std::move(packed));
  }
  return parts;
}

Result<std::vector<Packing::Job>> Packing::plan(std::span<const Instruction> instructions) const {
  std::vector<Job> jobs;
  std::set<Key> planned;
  for (const Instruction& instruction : instructions) {
    const auto* logits = std::get_if<Logits>(&instruction);
    if (logits != nullptr && !logits->ids.empty()) continue;
    Wanted wanted;
    describe(instruction, wanted);
    for (std::vector<Weight>& weights : wanted.matrices) {
      if (!planned.insert(key_of(weights)).second) continue;
      const Weight& first = weights.front();
      FT_ASSIGN(PackedMatrix matrix, plan_matrix(*device_, first, first.rows, weights.size()));
      jobs.push_back({std::move(weights), std::move(matrix)});
    }
  }
  return jobs;
}

Status Packing::map(const PackedCacheOptions& options, std::span<const Instruction> instructions) {
  if (options.folder.empty()) return {};
  FT_ASSIGN(std::vector<Job> jobs, plan(instructions));
  if (jobs.empty()) return {};
  std::string layout = fmt::format("metal {}\n", kLayoutVersion);
  std::size_t bytes = 0;
  for (const Job& job : jobs) {
    for (const Weight& weight : job.weights) layout += layout_of(weight);
    layout += fmt::format("{} {}\n", job.planned.codes_bytes(), job.planned.scales_bytes());
    bytes += in_pages(job.planned.codes_bytes()) + in_pages(job.planned.scales_bytes());
  }
  const PackedCacheKey key = PackedCacheKey::of(options, layout, static_cast<std::int64_t>(bytes));
  Result<std::shared_ptr<const PackedFile>> file = open(key);
  if (!file.ok()) {
    if (file.error().code != Code::kNotFound) log_warn(file.error().message);
    const Status written = write(key, jobs);
    file = written.ok() ? open(key) : written.error();
  }
  if (file.ok()) return wrap(*file, std::move(jobs));
  log_warn(file.error().message + "; the next start packs the weights again");
  return {};
}

Result<std::shared_ptr<const PackedFile>> Packing::open(const PackedCacheKey& key) const {
  FT_ASSIGN(PackedFile file, PackedFile::open(key));
  FT_TRY(file.check(*pool_));
  return std::make_shared<const PackedFile>(std::move(file));
}

/// Memory: the largest matrix.
Status Packing::write(const PackedCacheKey& key, std::span<const Job> jobs) const {
  FT_ASSIGN(PackedWriter writer, PackedWriter::open(key));
  for (const Job& job : jobs) {
    FT_ASSIGN(const PackedMatrix packed, pack(device_, *pool_, job.weights));
    FT_TRY(append(writer, packed.codes, packed.codes_bytes()));
    FT_TRY(append(writer, packed.scales, packed.scales_bytes()));
  }
  FT_TRY(writer.finish());
  log_info(key.path + ": written; later starts map it too");
  return {};
}

Status Packing::wrap(const std::shared_ptr<const PackedFile>& file, std::vector<Job> jobs) {
  std::size_t at = 0;
  const auto next = [&](std::size_t bytes) {
    const std::span<const std::byte> pages(file->data() + at, in_pages(bytes));
    at += pages.size();
    return Memory::wrap(device_, pages, file);
  };
  for (Job& job : jobs) {
    Result<Memory> codes = next(job.planned.codes_bytes()), scales = next(job.planned.scales_bytes());
    for (const Result<Memory>* part : {&codes, &scales}) {
      if (part->ok()) continue;
      if (part->error().code == Code::kExhausted) return part->error();
      log_warn(part->error().message + "; the weights are packed into memory");
      return {};
    }
    job.planned.codes = std::move(*codes), job.planned.scales = std::move(*scales);
    bytes_ += static_cast<std::int64_t>(job.planned.bytes());
    packed_[key_of(job.weights)] = std::make_shared<const PackedMatrix>(std::move(job.planned));
  }
  return {};
}

}  // namespace ft::metal
