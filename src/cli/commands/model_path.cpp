#include "cli/commands/model_path.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/system.h"
#include "cli/library/library.h"
#include "format/gguf/files.h"
#include "hub/summary.h"

namespace ft::cli {

namespace fs = std::filesystem;

bool looks_like_path(const std::string& named) {
  return named.starts_with('/') || named.starts_with('.') || named.starts_with('~') || named.ends_with('/') ||
         std::count(named.begin(), named.end(), '/') > 1;
}

namespace {

Result<std::string> find_by_name(const std::string& named) {
  if (looks_like_path(named)) {
    return Error{Code::kNotFound,
                 fmt::format("there is no model at {}; give the folder that contains config.json and "
                             "*.safetensors, or a GGUF file",
                             named)};
  }
  FT_ASSIGN(const KnownModel known, find_known(named, true));
  const Assessment& assessment = known.assessment;
  if (assessment.tier == Tier::kIncomplete || assessment.tier == Tier::kConvertible) {
    return Error{Code::kCorrupt, fmt::format("{} is {}: {}; {}", named, tier_name(assessment.tier),
                                             assessment.reason, assessment.next)};
  }
  return known.found.directory;
}

/// A folder with config.json, or the GGUF file of a folder that holds one model in this format.
Result<std::string> in_folder(const std::string& folder) {
  const std::vector<std::string> files = hub::gguf_models(folder);
  if (files.empty()) return folder;  // loading reports the missing files
  if (files.size() == 1) return files.front();
  return Error{Code::kInvalid, fmt::format("{} contains several models: {}; give one of these files", folder,
                                           fmt::join(files, ", "))};
}

}  // namespace

Result<std::string> find_model(const std::string& named) {
  std::error_code ignored;
  if (!named.empty()) {
    if (fs::is_directory(named, ignored)) return in_folder(named);
    if (fs::exists(named, ignored) && (format::is_gguf_file(named) || named.ends_with(".gguf"))) return named;
    if (fs::exists(named, ignored)) {
      return Error{Code::kNotFound,
                   fmt::format("{} is a file, but not a GGUF file; give one, or the folder that "
                               "contains config.json and *.safetensors",
                               named)};
    }
    return find_by_name(named);
  }
  if (const std::optional<hub::FoundModel> shipped = find_shipped_model()) return shipped->directory;
  const std::vector<std::string> places = shipped_model_places(program_path());
  if (places.empty()) {
    return Error{Code::kNotFound,
                 "the shipped model cannot be located without /proc; give a model with --model DIR or "
                 "FORETOKEN_MODEL"};
  }
  return Error{Code::kNotFound,
               fmt::format("the shipped model was not found in {}; give a model with --model DIR "
                           "or FORETOKEN_MODEL",
                           fmt::join(places, ", "))};
}

}  // namespace ft::cli
