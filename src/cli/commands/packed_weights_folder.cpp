#include "cli/commands/packed_weights_folder.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::string file_name(const Model& model) {
  std::string name = model.name;
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  constexpr std::size_t kMaxLetters = 100;
  return name.substr(0, kMaxLetters);
}

Result<std::string> packed_weights_folder(const std::string& choice) {
  if (choice == "off" || choice.empty()) return std::string();
  if (choice != "auto") return choice;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return (fs::path(cache) / "foretoken").string();
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return (fs::path(home) / ".cache" / "foretoken").string();
  }
  return Error{Code::kInvalid,
               "--packed-weights auto: XDG_CACHE_HOME and HOME are not set; use --packed-weights DIR"};
}

std::string kernel_folder() {
  const Result<std::string> folder = packed_weights_folder("auto");
  return folder.ok() ? *folder : std::string();
}

PackedCacheOptions packed_cache_options(const std::string& folder, const Model& model) {
  PackedCacheOptions options;
  if (folder.empty()) return options;
  std::error_code ignored;
  const fs::path place = fs::weakly_canonical(model.directory, ignored);
  options.folder = folder;
  options.name = file_name(model);
  options.place = ignored ? model.directory : place.string();
  options.source = model.checkpoint->state_fingerprint();
  return options;
}

PackedFiles find_packed(const std::string& folder, const Model& model) {
  constexpr std::size_t kDigits = 16;  // of a fingerprint
  const std::string_view ending = kPackedFileSuffix;
  const std::string begin = file_name(model) + "-";
  PackedFiles found;
  found.folder = folder;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(ending) ||
        name.size() != begin.size() + kDigits + ending.size()) {
      continue;
    }
    std::error_code unknown;
    const std::uintmax_t size = fs::file_size(entry->path(), unknown);
    if (unknown) continue;
    ++found.files;
    found.bytes += static_cast<std::int64_t>(size);
  }
  return found;
}

}  // namespace ft::cli
