#include "hub/whole_blob.h"

#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

#include "hub/digest.h"

namespace ft::hub {

bool is_whole_blob(const std::string& path, const std::string& etag,
                   const std::function<bool(std::int64_t bytes)>& read) {
  constexpr std::size_t kReadBytes = std::size_t{1} << 20;
  std::error_code failed;
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, failed));
  if (failed) return false;
  Digest digest = Digest::for_blob(etag, size);
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes(kReadBytes);
  while (file) {
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const auto got = static_cast<std::size_t>(file.gcount());
    digest.add(std::as_bytes(std::span(bytes.data(), got)));
    if (!read(static_cast<std::int64_t>(got))) return true;
  }
  return digest.finish() == etag;
}

}  // namespace ft::hub
