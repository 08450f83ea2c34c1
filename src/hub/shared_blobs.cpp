#include "hub/shared_blobs.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>

#include "hub/cache.h"
#include "hub/entries.h"
#include "hub/repository.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 64, kPrefixDigits = 2;

std::optional<std::string> text_of(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_regular_file(fs::symlink_status(path, failed))) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

fs::path absolute(const std::string& path) {
  std::error_code failed;
  return fs::absolute(path, failed).lexically_normal();
}

fs::path store_of(const std::string& cache) { return absolute(cache) / "blobs"; }

bool is_store(const std::string& cache) {
  return text_of(store_of(cache) / ".huggingface-shared-blobs") == "1\n";
}

/// CACHE/blobs/HH/HASH
bool is_stored_path(const fs::path& store, const fs::path& path) {
  const std::string hash = path.filename().string();
  return is_hex(hash, kHashDigits) && path == store / hash.substr(0, kPrefixDigits) / hash;
}

/// Where the link REPOSITORY/blobs/ETAG points, if that is into the store.
std::optional<fs::path> target_of(const fs::path& store, const fs::path& link) {
  std::error_code failed;
  const fs::path target = fs::read_symlink(link, failed);
  if (failed) return std::nullopt;
  fs::path path = (link.parent_path() / target).lexically_normal();
  return is_stored_path(store, path) ? std::optional(std::move(path)) : std::nullopt;
}

fs::path beside(const fs::path& stored, const char* suffix) {
  return stored.parent_path() / (stored.filename().string() + suffix);
}

}  // namespace

std::optional<std::string> shared_blob_of(const std::string& cache, const std::string& blob) {
  if (!is_store(cache)) return std::nullopt;
  const std::optional<fs::path> target = target_of(store_of(cache), absolute(blob));
  return target ? std::optional(target->string()) : std::nullopt;
}

std::optional<std::set<std::string>> links_to_shared_blob(const std::string& cache,
                                                          const std::string& stored) {
  const std::optional<std::string> list = text_of(beside(stored, ".refs"));
  if (!list) return std::nullopt;
  std::set<std::string> links;
  std::istringstream lines(*list);
  for (std::string line; std::getline(lines, line);) {
    if (!check_file_path(line).ok()) continue;
    const fs::path link = absolute(cache) / line;
    std::error_code failed;
    const fs::file_status status = fs::symlink_status(link, failed);
    if (status.type() == fs::file_type::none) return std::nullopt;  // it cannot be looked at
    if (target_of(store_of(cache), link) == absolute(stored)) links.insert(link.string());
  }
  return links;
}

std::vector<SharedBlob> unused_shared_blobs(const std::string& cache, const std::set<std::string>& gone) {
  std::vector<SharedBlob> unused;
  if (!is_store(cache)) return unused;
  std::set<std::string> gone_paths;
  for (const std::string& path : gone) gone_paths.insert(absolute(path).string());
  const fs::path store = store_of(cache);
  for (const fs::path& folder : entries_of(store)) {
    for (const fs::path& path : entries_of(folder)) {
      std::error_code failed;
      if (!is_stored_path(store, path) || !fs::is_regular_file(fs::symlink_status(path, failed))) continue;
      const std::optional<std::set<std::string>> links = links_to_shared_blob(cache, path.string());
      if (!links || !std::ranges::includes(gone_paths, *links)) continue;
      const std::uintmax_t bytes = fs::file_size(path, failed);
      if (!failed) unused.push_back({path.string(), static_cast<std::int64_t>(bytes)});
    }
  }
  return unused;
}

Status sweep_shared_blob(const std::string& cache, const std::string& stored) {
  if (!is_store(cache) || !is_stored_path(store_of(cache), absolute(stored))) return {};
  const fs::path path = absolute(stored);
  FT_ASSIGN(const std::unique_ptr<FileLock> lock, FileLock::try_lock(beside(path, ".lock").string()));
  if (lock == nullptr) return {};  // another process has linked it
  const std::optional<std::set<std::string>> links = links_to_shared_blob(cache, stored);
  if (!links || !links->empty()) return {};
  for (const fs::path& each : {path, beside(path, ".refs")}) {
    std::error_code failed;
    fs::remove(each, failed);
    if (failed)
      return Error{Code::kIo, fmt::format("{}: cannot be deleted: {}", each.string(), failed.message())};
  }
  return {};
}

}  // namespace ft::hub
