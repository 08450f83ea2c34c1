#include "hub/prune.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sys/stat.h>

#include "hub/cache.h"
#include "hub/entries.h"
#include "hub/shared_blobs.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFolder = "models--", kPartial = ".foretoken.incomplete";

/// Every commit that a branch, a tag or a pull request names.
std::set<std::string> named_commits(const fs::path& repository, bool& readable) {
  std::set<std::string> commits;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(repository / "refs", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code absent;
    if (!entry->is_regular_file(absent)) continue;  // a folder: refs/pr/1
    std::ifstream file(entry->path());
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    while (text.ends_with('\n')) text.pop_back();
    if (!text.empty()) commits.insert(text);
  }
  readable = !failed || failed == std::errc::no_such_file_or_directory;
  return commits;
}

/// The files that snapshots use: blobs by name, and files without links by their inode, which may be a
/// blob's.
struct Uses {
  std::set<std::string> blobs;
  std::set<std::pair<dev_t, ino_t>> inodes;

  bool has(const std::string& name, const struct stat& facts) const {
    return blobs.contains(name) || inodes.contains({facts.st_dev, facts.st_ino});
  }
};

/// False if part of the snapshot cannot be read.
bool add_uses(const fs::path& snapshot, Uses& uses) {
  std::error_code failed;
  fs::recursive_directory_iterator entry(snapshot, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) {
    std::error_code plain;
    const fs::path target = fs::read_symlink(entry->path(), plain);
    struct stat facts{};
    if (!plain) {
      uses.blobs.insert(target.filename().string());
    } else if (::lstat(entry->path().c_str(), &facts) == 0) {
      uses.inodes.insert({facts.st_dev, facts.st_ino});
    }
  }
  return !failed;
}

class Finder {
 public:
  Finder(fs::path cache, fs::path repository, std::int64_t settled_s)
      : cache_(std::move(cache)), repository_(std::move(repository)), settled_s_(settled_s) {}

  Prunable find() {
    std::string name = repository_.filename().string().substr(kFolder.size());
    if (const std::size_t dashes = name.find("--"); dashes != std::string::npos) name.replace(dashes, 2, "/");
    found_.repository = name;
    bool readable = true;
    const std::set<std::string> commits = named_commits(repository_, readable);
    Uses uses;
    for (const fs::path& snapshot : entries_of(repository_ / "snapshots")) {
      const bool wanted = commits.empty() || commits.contains(snapshot.filename().string());
      if (wanted || !settled(snapshot)) {
        readable = add_uses(snapshot, uses) && readable;
        found_.young += wanted ? 0 : 1;
      } else {
        found_.snapshots.push_back(snapshot.string());
        found_.bytes += own_bytes(snapshot);
      }
    }
    if (!readable) return {};
    for (const fs::path& blob : entries_of(repository_ / "blobs")) look_at(blob, uses);
    return std::move(found_);
  }

 private:
  void look_at(const fs::path& blob, const Uses& uses) {
    const std::string name = blob.filename().string();
    const bool partial = name.ends_with(kPartial);
    if (!partial && name.find('.') != std::string::npos) return;
    struct stat facts{};
    if (::stat(blob.c_str(), &facts) != 0 || uses.has(name, facts)) return;
    constexpr std::int64_t kBlock = 512;
    const std::int64_t bytes = std::min<std::int64_t>(facts.st_size, facts.st_blocks * kBlock);
    const bool busy = partial && locked(name.substr(0, name.size() - kPartial.size()));
    if (busy || !settled(blob)) {
      ++(busy ? found_.busy : found_.young);
      found_.left_bytes += bytes;
      return;
    }
    found_.files.push_back(blob.string());
    std::error_code failed;
    found_.bytes += fs::is_symlink(blob, failed) ? 0 : bytes;  // a link's target stays
  }

  /// Bytes of files that exist only in the snapshot, without symbolic or hard links to blobs.
  static std::int64_t own_bytes(const fs::path& snapshot) {
    std::int64_t bytes = 0;
    std::error_code failed;
    for (fs::recursive_directory_iterator entry(snapshot, failed), end; !failed && entry != end;
         entry.increment(failed)) {
      struct stat facts{};
      if (::lstat(entry->path().c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_nlink == 1)
        bytes += facts.st_size;
    }
    return bytes;
  }

  bool settled(const fs::path& path) const {
    struct stat facts{};
    return ::lstat(path.c_str(), &facts) == 0 && facts.st_mtime <= settled_s_;
  }

  bool locked(const std::string& etag) const {
    const fs::path lock = cache_ / ".locks" / repository_.filename() / (etag + ".lock");
    std::error_code absent;
    if (!fs::exists(lock, absent)) return false;
    const Result<std::unique_ptr<FileLock>> taken = FileLock::try_lock(lock.string());
    return !taken.ok() || *taken == nullptr;
  }

  fs::path cache_, repository_;
  std::int64_t settled_s_;
  Prunable found_;
};

/// Once the blobs of the other entries are gone.
Prunable find_shared(const std::string& cache, const std::vector<Prunable>& others, std::int64_t settled_s) {
  std::set<std::string> gone;
  for (const Prunable& other : others) gone.insert(other.files.begin(), other.files.end());
  Prunable found;
  found.repository = kSharedFiles, found.cache = cache;
  for (const SharedBlob& blob : unused_shared_blobs(cache, gone)) {
    struct stat facts{};
    if (::stat(blob.path.c_str(), &facts) != 0) continue;
    if (facts.st_mtime > settled_s) {
      ++found.young, found.left_bytes += blob.bytes;
    } else {
      found.stored.push_back(blob.path), found.bytes += blob.bytes;
    }
  }
  return found;
}

}  // namespace

std::vector<Prunable> find_prunable(const std::string& cache, std::int64_t settled_s) {
  std::vector<Prunable> all;
  for (const fs::path& repository : entries_of(cache)) {
    if (!repository.filename().string().starts_with(kFolder)) continue;
    Prunable found = Finder(cache, repository, settled_s).find();
    if (found.deletes() || found.young > 0 || found.busy > 0) all.push_back(std::move(found));
  }
  Prunable shared = find_shared(cache, all, settled_s);
  if (shared.deletes() || shared.young > 0) all.push_back(std::move(shared));
  return all;
}

Status prune(const Prunable& found) {
  for (const fs::path snapshot : found.snapshots) {  // notes about them
    const fs::path repository = snapshot.parent_path().parent_path();
    const std::string commit = snapshot.filename().string();
    std::error_code ignored;
    fs::remove(repository / "trees" / (commit + ".json"), ignored);
    fs::remove(repository / kPullNotes / commit, ignored);
  }
  for (const std::vector<std::string>* paths : {&found.snapshots, &found.files}) {
    for (const std::string& path : *paths) {
      std::error_code failed;
      fs::remove_all(path, failed);
      if (failed) return Error{Code::kIo, fmt::format("{}: cannot be deleted: {}", path, failed.message())};
    }
  }
  for (const std::string& stored : found.stored) FT_TRY(sweep_shared_blob(found.cache, stored));
  return {};
}

}  // namespace ft::hub
