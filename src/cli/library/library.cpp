#include "cli/library/library.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/clock.h"
#include "cli/args/command.h"
#include "cli/library/catalogue.h"
#include "cli/library/shipped_model.h"
#include "hub/repository.h"
#include "hub/settings.h"

namespace ft::cli {
namespace {

const char* variable(const std::string& name) { return std::getenv(name.c_str()); }

Result<hub::Scan> scan(const std::vector<std::string>& extra) {
  FT_ASSIGN(const hub::HubSettings settings, hub::read_hub_settings(variable));
  constexpr std::int64_t kMaxNs = 2'000'000'000;
  const std::int64_t end = steady_ns() + kMaxNs;
  return hub::scan_models(hub::usual_places(settings, variable, extra), [end] { return steady_ns() > end; });
}

KnownModel known(const hub::FoundModel& found) {
  KnownModel model{found, hub::summarise(found), {}};
  const bool pulled = found.place == hub::kHubPlace;
  model.assessment = assess(model.summary, found.name, pulled);
  return model;
}

/// The model whose name, or the part of it after the owner, is like `name`; empty if there is none.
std::string like(const std::string& name, const std::vector<hub::FoundModel>& models) {
  std::vector<std::string> names, short_names;
  for (const hub::FoundModel& model : models) {
    names.push_back(model.name);
    short_names.push_back(model.name.substr(model.name.find('/') + 1));
  }
  if (std::string near = nearest(name, names); !near.empty()) return near;
  std::string near = nearest(name, short_names);
  if (near.empty()) return near;
  return names[static_cast<std::size_t>(std::ranges::find(short_names, near) - short_names.begin())];
}

Error not_here(const std::string& name, const std::vector<hub::FoundModel>& models) {
  const std::string near = like(name, models);
  const std::string hint = near.empty() ? "" : fmt::format(" (or did you mean {}?)", near);
  if (hub::looks_like_repository(name)) {
    return {Code::kNotFound,
            fmt::format("{} is not on this machine; fetch it with: foretoken pull {}{}", name, name, hint)};
  }
  if (const CatalogueEntry* entry = find_in_catalogue(name)) {
    return {Code::kNotFound, fmt::format("{} is not on this machine; fetch it with: foretoken pull {}",
                                         entry->name, entry->repository)};
  }
  return {Code::kNotFound, fmt::format("no model on this machine is called '{}'{}; `foretoken models` lists "
                                       "them, `foretoken pull ORG/NAME` fetches one",
                                       name, hint)};
}

}  // namespace

Result<Library> read_library(const std::vector<std::string>& extra) {
  FT_ASSIGN(const hub::Scan found, scan(extra));
  Library library;
  library.ended_early = found.ended_early;
  for (const hub::FoundModel& model : found.models) library.models.push_back(known(model));
  if (const auto shipped = find_shipped_model()) library.models.push_back(known(*shipped));
  return library;
}

std::vector<KnownModel> models_below(const std::string& folder) {
  hub::ScanPlaces places;
  places.folders = {folder};
  const hub::Scan found = hub::scan_models(places, [] { return false; });  // bounded by its entries
  std::vector<KnownModel> models;
  for (const hub::FoundModel& model : found.models) models.push_back(known(model));
  return models;
}

Result<KnownModel> find_known(const std::string& name, bool to_run) {
  if (const auto shipped = find_shipped_model(); shipped && name == shipped->name) return known(*shipped);
  FT_ASSIGN(const hub::Scan found, scan({}));
  std::vector<hub::FoundModel> matches = hub::matching(found.models, name);
  if (matches.empty()) return not_here(name, found.models);
  std::vector<KnownModel> models;
  for (const hub::FoundModel& match : matches) models.push_back(known(match));
  // The same repository may be in several places: one that runs comes first.
  std::ranges::stable_sort(models, std::greater<>(),
                           [](const KnownModel& model) { return model.assessment.runs(); });
  const bool same = std::ranges::all_of(
      models, [&](const KnownModel& model) { return model.found.name == models.front().found.name; });
  for (const std::string_view usual : {":q4_k_m", ":q8_0"}) {
    if (same || !to_run) break;
    const std::vector<hub::FoundModel> one = hub::matching(found.models, name + std::string(usual));
    if (one.size() == 1) return known(one.front());
  }
  if (!same) {
    std::vector<std::string> names;
    for (const KnownModel& model : models) names.push_back(model.found.name);
    return Error{Code::kInvalid, fmt::format("'{}' fits several models: {}; give the whole name", name,
                                             fmt::join(names, ", "))};
  }
  return models.front();
}

std::string with_tilde(const std::string& path) {
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return path;
  const std::string folder = std::string(home) + "/";
  return path.starts_with(folder) ? "~/" + path.substr(folder.size()) : path;
}

}  // namespace ft::cli
