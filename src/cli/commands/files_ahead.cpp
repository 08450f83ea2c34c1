#include "cli/commands/files_ahead.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/mapped_file.h"
#include "base/system.h"
#include "format/gguf/files.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> weight_files(const std::string& place) {
  std::vector<std::string> files;
  if (format::is_gguf_file(place)) {
    const format::ShardName name = format::read_shard_name(place);
    for (int shard = 1; shard <= name.count; ++shard) files.push_back(name.path(shard));
    if (files.empty()) files.push_back(place);
    return files;
  }
  std::error_code failed;
  for (fs::directory_iterator at(place, failed), end; !failed && at != end; at.increment(failed)) {
    if (at->path().extension() == ".safetensors") files.push_back(at->path().string());
  }
  std::ranges::sort(files);
  return files;
}

void read_files_ahead(const std::stop_token& stop, const std::string& place, std::int64_t most_bytes) {
  constexpr std::int64_t kPiece = 8 << 20;
  for (const std::string& path : weight_files(place)) {
    const Result<MappedFile> file = MappedFile::open(path);
    if (!file.ok()) return;
    const std::int64_t bytes = std::min<std::int64_t>(std::ssize(file->bytes()), most_bytes);
    for (std::int64_t at = 0; at < bytes; at += kPiece) {
      if (stop.stop_requested()) return;
      read_ahead(file->bytes().data() + at, static_cast<std::size_t>(std::min(kPiece, bytes - at)));
    }
    most_bytes -= bytes;
  }
}

}  // namespace

FilesAhead::FilesAhead(const std::string& place, std::int64_t most_bytes) {
  try {
    thread_ = std::jthread([place, most_bytes](const std::stop_token& stop) {
      try {
        read_files_ahead(stop, place, most_bytes);
      } catch (...) {  // NOLINT(bugprone-empty-catch): it only saves time
      }
    });
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): the same
  }
}

}  // namespace ft::cli
