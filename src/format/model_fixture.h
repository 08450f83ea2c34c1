// For tests: temporary model directories, whole or broken in one chosen way. Only *_test.cpp files include
// it. A TemporaryFolder removes its files.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdlib.h>
#include <string>
#include <utility>
#include <vector>

namespace ft::format {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ft_format_XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return file(name);
  }
  void remove(const std::string& name) const { std::filesystem::remove_all(path_ / name); }

 private:
  std::filesystem::path path_;
};

/// A safetensors file with this header text and data.
inline std::string with_header(const std::string& header, const std::string& data) {
  std::string file(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(file.data(), &length, 8);
  return file + header + data;
}

struct Piece {
  std::string name;
  std::string dtype;
  std::string shape;  // "[2,3]"
  std::string data;
};

inline std::string safetensors_file(const std::vector<Piece>& pieces, const std::string& metadata = "") {
  std::string header(1, '{');
  std::string data;
  if (!metadata.empty()) header += "\"__metadata__\":" + metadata;
  for (const Piece& piece : pieces) {
    if (header.size() > 1) header += ',';
    header += '"' + piece.name + "\":{\"dtype\":\"" + piece.dtype + "\",\"shape\":" + piece.shape +
              ",\"data_offsets\":[" + std::to_string(data.size()) + ',' +
              std::to_string(data.size() + piece.data.size()) + "]}";
    data += piece.data;
  }
  return with_header(header + "}", data);
}

/// The bytes of float32 values.
inline std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * 4, '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace ft::format
