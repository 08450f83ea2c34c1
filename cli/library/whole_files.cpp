#include "cli/library/whole_files.h"

#include <filesystem>
#include <fstream>
#include <span>

#include "hub/digest.h"
#include "hub/repository.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kSha1Digits = 40, kSha256Digits = 64, kReadBytes = std::size_t{1} << 20;

bool is_whole(const fs::path& blob, Progress& progress, std::int64_t& read_bytes) {
  std::error_code failed;
  const auto size = static_cast<std::int64_t>(fs::file_size(blob, failed));
  if (failed) return false;
  hub::Digest digest = hub::Digest::for_blob(blob.filename().string(), size);
  std::ifstream file(blob, std::ios::binary);
  std::vector<char> bytes(kReadBytes);
  while (file) {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const auto got = static_cast<std::size_t>(file.gcount());
    digest.add(std::as_bytes(std::span(bytes.data(), got)));
    progress.set(read_bytes += static_cast<std::int64_t>(got));
  }
  return digest.finish() == blob.filename().string();
}

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
    if (!is_whole(blob, progress, read_bytes)) found.damaged.push_back(blob.string());
  }
  return found;
}

}  // namespace ft::cli
