#include "cli/commands/files_ahead.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

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
  std::vector<char> piece(1 << 20);
  for (const std::string& path : weight_files(place)) {
    std::ifstream file(path, std::ios::binary);
    while (file && most_bytes > 0 && !stop.stop_requested()) {
      file.read(piece.data(), std::ssize(piece));
      most_bytes -= file.gcount();
    }
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
