#include "cli/library/whole_files.h"

#include <filesystem>
#include <map>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <vector>

#include "hub/listing.h"
#include "hub/repository.h"
#include "hub/whole_blob.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kSha1Digits = 40, kSha256Digits = 64;

struct NamedFile {
  fs::path path;
  std::string etag;
  std::int64_t bytes = 0;
};

bool is_etag(const std::string& text) {
  return hub::is_hex(text, kSha1Digits) || hub::is_hex(text, kSha256Digits);
}

using Inode = std::pair<dev_t, ino_t>;

/// The hashes of a snapshot's own files, if links are impossible: from the list of its commit, and from the
/// blobs to which they are hard links.
struct KnownHashes {
  std::map<std::string, std::string> by_path;
  std::map<Inode, std::string> by_inode;

  explicit KnownHashes(const fs::path& snapshot) {
    const fs::path folder = snapshot.parent_path();
    if (folder.filename() != "snapshots") return;
    const fs::path repository = folder.parent_path();
    const std::string list = snapshot.filename().string() + ".json";
    const auto files = hub::read_tree_file((repository / "trees" / list).string());
    if (files.ok()) {
      for (const hub::RemoteFile& file : *files) by_path[file.path] = file.etag();
    }
    std::error_code failed;
    for (fs::directory_iterator entry(repository / "blobs", failed), end; !failed && entry != end;
         entry.increment(failed)) {
      struct stat facts{};
      const std::string name = entry->path().filename().string();
      if (is_etag(name) && ::stat(entry->path().c_str(), &facts) == 0)
        by_inode[{facts.st_dev, facts.st_ino}] = name;
    }
  }

  /// Empty: unknown.
  std::string of(const fs::path& snapshot, const fs::path& file) const {
    struct stat facts{};
    if (::lstat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) return {};
    if (const auto at = by_inode.find({facts.st_dev, facts.st_ino}); at != by_inode.end()) return at->second;
    const auto at = by_path.find(file.lexically_relative(snapshot).generic_string());
    return at == by_path.end() ? std::string() : at->second;
  }
};

/// The files of the folder whose hashes are known.
std::vector<NamedFile> named_files(const fs::path& folder) {
  std::vector<NamedFile> files;
  const KnownHashes known(folder);
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code unread;
    const fs::path target = fs::read_symlink(entry->path(), unread);
    NamedFile file{entry->path(), known.of(folder, entry->path())};
    if (!unread && is_etag(target.filename().string())) {
      file.path = (entry->path().parent_path() / target).lexically_normal();
      file.etag = target.filename().string();
    }
    if (file.etag.empty()) continue;
    const std::uintmax_t size = fs::file_size(file.path, unread);
    file.bytes = unread ? 0 : static_cast<std::int64_t>(size);
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

WholeFiles check_whole_files(const std::string& directory, Terminal& terminal) {
  const std::vector<NamedFile> files = named_files(directory);
  std::int64_t total = 0, read_bytes = 0;
  for (const NamedFile& file : files) total += file.bytes;
  WholeFiles found;
  Progress progress(terminal, "hashing", total);
  for (const NamedFile& file : files) {
    ++found.checked;
    const bool whole = hub::is_whole_blob(file.path.string(), file.etag, [&](std::int64_t bytes) {
      progress.set(read_bytes += bytes);
      return true;
    });
    if (!whole) found.damaged.push_back(file.path.string());
  }
  return found;
}

}  // namespace ft::cli
