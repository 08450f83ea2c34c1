#include "cli/commands/calibration_place.h"

#include <filesystem>
#include <fmt/format.h>

#include "base/checksum.h"
#include "base/system.h"
#include "cli/commands/packed_weights_folder.h"
#include "drafters/registry.h"
#include "lab/machine.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

/// Changes with every build.
std::string this_program() {
  const std::string self = program_file();
  std::error_code unknown;
  return fmt::format("{} {} {}", FORETOKEN_VERSION, fs::file_size(self, unknown),
                     fs::last_write_time(self, unknown).time_since_epoch().count());
}

}  // namespace

CalibrationCacheOptions calibration_place(const std::string& choice, const Model& model,
                                          const Backend& backend, bool mapped) {
  if (choice == "measure" || choice.empty()) return {};
  const Result<std::string> folder = packed_weights_folder(choice);
  if (!folder.ok() || folder->empty()) return {};  // auto without a home folder
  std::string what = fmt::format("{} {}\n{}\n{}\n{}", mapped ? "mapped" : "packed", CostModel::kRows,
                                 read_machine().processor, backend.describe(), to_text(model.target));
  for (const DrafterSpec* drafter : drafters_of(model)) {
    const Program* network = drafter->network(model);
    if (network != nullptr) what += fmt::format("\n{}\n{}", drafter->name, to_text(*network));
  }
  constexpr std::size_t kDigits = 16;  // as in the names of packed-weight files
  CalibrationCacheOptions options;
  options.path =
      (fs::path(*folder) / (file_name(model) + "-" + fingerprint(what).substr(0, kDigits) + ".costs"))
          .string();
  options.key = fingerprint(what + "\n" + this_program());  // the figures of a new build replace the old ones
  return options;
}

}  // namespace ft::cli
