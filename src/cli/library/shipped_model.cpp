#include "cli/library/shipped_model.h"

#include <filesystem>

#include "base/system.h"

namespace ft::cli {

namespace fs = std::filesystem;

std::vector<std::string> shipped_model_places(const std::string& program) {
  std::vector<std::string> places;
  if (!program.empty()) {
    const fs::path folder = fs::path(program).parent_path();
    // Installed, next to the program, and in the source tree around a build folder.
    for (const char* way : {"../share/foretoken", ".", "..", "../..", "../../.."}) {
      places.push_back((folder / way / "assets" / kShippedModel).lexically_normal().string());
    }
  }
  return places;
}

std::optional<hub::FoundModel> find_shipped_model() {
  std::error_code ignored;
  for (const std::string& place : shipped_model_places(program_path())) {
    if (!fs::exists(fs::path(place) / "config.json", ignored)) continue;
    hub::FoundModel found;
    found.name = kShippedModel, found.place = kShippedPlace, found.directory = place;
    return found;
  }
  return {};
}

}  // namespace ft::cli
