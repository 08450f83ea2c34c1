#include "format/gguf/files.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <utility>

#include "format/tensor.h"

namespace ft::format {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".gguf";
constexpr std::size_t kDigits = 5;
constexpr int kMaxParts = 4096;

int number_of(std::string_view digits) {
  int value = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return failed == std::errc() && end == digits.data() + digits.size() ? value : 0;
}

Error of_another(const std::string& path, const std::string& expected, std::int64_t found) {
  return {Code::kCorrupt,
          fmt::format("{}: expected {}, found {}; the parts do not belong together: download all "
                      "of them again",
                      path, expected, found)};
}

Status add_part(const std::string& path, int number, int count, GgufFiles& all) {
  FT_ASSIGN(MappedFile file, MappedFile::open(path));
  FT_ASSIGN(GgufFile contents, parse_gguf(file.bytes(), path));
  const std::int64_t said = contents.whole("split.count", 1), place = contents.whole("split.no", 0);
  if (said != count) return of_another(path, fmt::format("split.count {}", count), said);
  if (place != number - 1) return of_another(path, fmt::format("split.no {}", number - 1), place);
  if (number == 1) all.contents.metadata = std::move(contents.metadata);
  for (GgufTensor& tensor : contents.tensors) {
    tensor.part = number - 1;
    all.contents.tensors.push_back(std::move(tensor));
  }
  all.files.push_back(std::move(file));
  all.header_bytes.push_back(contents.header_bytes);
  return {};
}

}  // namespace

std::string ShardName::path(int shard) const {
  return fmt::format("{}-{:05}-of-{:05}{}", before, shard, count, kEnding);
}

ShardName read_shard_name(const std::string& path) {
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kLength = 1 + 2 * kDigits + kOf.size() + kEnding.size();
  ShardName name;
  if (path.size() <= kLength || !path.ends_with(kEnding)) return name;
  const std::string_view tail = std::string_view(path).substr(path.size() - kLength);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return name;
  const int number = number_of(tail.substr(1, kDigits));
  const int count = number_of(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (number < 1 || number > count) return name;
  name.before = path.substr(0, path.size() - kLength), name.number = number, name.count = count;
  return name;
}

std::string gguf_model_name(const std::string& path) {
  const ShardName shard = read_shard_name(path);
  std::string name = fs::path(shard.count > 0 ? shard.before : path).filename().string();
  if (shard.count == 0 && name.ends_with(kEnding)) name.resize(name.size() - kEnding.size());
  return name;
}

bool is_gguf_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::array<char, 4> begin{};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), begin.size()) && std::string_view(begin.data(), begin.size()) == "GGUF";
}

Result<GgufFiles> open_gguf(const std::string& path) {
  const ShardName shard = read_shard_name(path);
  const int count = std::max(1, shard.count);
  if (count > kMaxParts)
    return Error{Code::kCorrupt,
                 fmt::format("{}: has {} parts, at most {} are read; use a file of fewer parts", path, count,
                             kMaxParts)};
  GgufFiles all;
  for (int number = 1; number <= count; ++number)
    FT_TRY(add_part(shard.count == 0 ? path : shard.path(number), number, count, all));
  const std::int64_t tensors = all.contents.whole("split.tensors.count", std::ssize(all.contents.tensors));
  if (count > 1 && tensors != std::ssize(all.contents.tensors))
    return of_another(path, fmt::format("{} tensors in all parts", tensors),
                      std::ssize(all.contents.tensors));
  return all;
}

}  // namespace ft::format
