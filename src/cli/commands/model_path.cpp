#include "cli/commands/model_path.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/system.h"
#include "cli/library/library.h"

namespace ft::cli {

namespace fs = std::filesystem;

bool looks_like_path(const std::string& named) {
  return named.starts_with('/') || named.starts_with('.') || named.starts_with('~') || named.ends_with('/') ||
         std::count(named.begin(), named.end(), '/') > 1;
}

namespace {

Result<std::string> find_by_name(const std::string& named) {
  if (looks_like_path(named)) {
    return Error{
        Code::kNotFound,
        fmt::format("there is no model at {}; give the folder that contains config.json and *.safetensors",
                    named)};
  }
  FT_ASSIGN(const KnownModel known, find_known(named));
  const Assessment& assessment = known.assessment;
  if (assessment.tier == Tier::kIncomplete || assessment.tier == Tier::kConvertible) {
    return Error{Code::kCorrupt, fmt::format("{} is {}: {}; {}", named, tier_name(assessment.tier),
                                             assessment.reason, assessment.next)};
  }
  return known.found.directory;
}

}  // namespace

Result<std::string> find_model(const std::string& named) {
  std::error_code ignored;
  if (!named.empty()) {
    if (fs::is_directory(named, ignored)) return named;
    if (fs::exists(named, ignored) && named.ends_with(".gguf")) {
      return Error{
          Code::kNotFound,
          fmt::format("{} does not run directly; convert it: foretoken convert {} OUT", named, named)};
    }
    if (fs::exists(named, ignored)) {
      return Error{
          Code::kNotFound,
          fmt::format("{} is a file; give the folder that contains config.json and *.safetensors", named)};
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
