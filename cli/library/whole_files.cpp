#include "cli/library/whole_files.h"

#include <filesystem>

#include "hub/repository.h"
#include "hub/whole_blob.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kSha1Digits = 40, kSha256Digits = 64;

}  // namespace

WholeFiles check_whole_files(const std::string& directory, Terminal& terminal) {
  std::vector<fs::path> blobs;
  std::int64_t total = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(directory, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code unread;
    const fs::path target = fs::read_symlink(entry->path(), unread);
    const std::string name = target.filename().string();
    if (unread || (!hub::is_hex(name, kSha1Digits) && !hub::is_hex(name, kSha256Digits))) continue;
    const fs::path blob = (entry->path().parent_path() / target).lexically_normal();
    const std::uintmax_t size = fs::file_size(blob, unread);
    total += unread ? 0 : static_cast<std::int64_t>(size);
    blobs.push_back(blob);
  }
  WholeFiles found;
  Progress progress(terminal, "hashing", total);
  std::int64_t read_bytes = 0;
  for (const fs::path& blob : blobs) {
    ++found.checked;
    const bool whole = hub::is_whole_blob(blob.string(), blob.filename().string(), [&](std::int64_t bytes) {
      progress.set(read_bytes += bytes);
      return true;
    });
    if (!whole) found.damaged.push_back(blob.string());
  }
  return found;
}

}  // namespace ft::cli
