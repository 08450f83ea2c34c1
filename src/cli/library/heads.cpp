#include "cli/library/heads.h"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_file.h"
#include "hub/summary.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCompanion = "companion.json";
constexpr std::size_t kMaxRecordBytes = std::size_t{1} << 16;

std::optional<DraftFolder> read_companion(const fs::path& folder) {
  const Result<std::string> text = read_text_file((folder / kCompanion).string(), kMaxRecordBytes);
  if (!text.ok()) return std::nullopt;
  const nlohmann::json record = read_json<nlohmann::json>(*text);
  if (!record.is_object()) return std::nullopt;
  const auto name = record.find("drafter"), directory = record.find("directory");
  if (name == record.end() || directory == record.end() || !name->is_string() || !directory->is_string())
    return std::nullopt;
  return DraftFolder{name->get<std::string>(), directory->get<std::string>()};
}

}  // namespace

std::string heads_folder() {
  const char* data = std::getenv("XDG_DATA_HOME");
  if (data != nullptr && *data == '/') return std::string(data) + "/foretoken/heads";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.local/share/foretoken/heads"
                                          : std::string();
}

std::string head_folder_of(const std::string& model_directory) {
  const std::string folder = heads_folder();
  const std::string identity = folder.empty() ? "" : hub::summarise_place(model_directory).identity;
  return identity.empty() ? "" : folder + "/" + identity;
}

KeptHead kept_head(const std::string& model_directory) {
  KeptHead kept;
  std::error_code ignored;
  // Most users have none, and then the model's headers need not be read.
  if (!fs::is_directory(heads_folder(), ignored)) return kept;
  const std::string folder = head_folder_of(model_directory);
  if (folder.empty()) return kept;
  if (fs::exists(fs::path(folder) / "mtp.safetensors", ignored)) kept.directory = folder;
  kept.companion = read_companion(folder);
  return kept;
}

Result<std::vector<DraftFolder>> found_drafters(const std::string& model_directory) {
  std::vector<DraftFolder> found;
  std::error_code ignored;
  if (const KeptHead kept = kept_head(model_directory); kept.companion) {
    if (!fs::is_directory(kept.companion->directory, ignored)) {
      return Error{Code::kNotFound, fmt::format("the drafter grafted onto {0} is missing at {1}; remove the "
                                                "graft: foretoken graft --onto {0} --remove",
                                                model_directory, kept.companion->directory)};
    }
    found.push_back(*kept.companion);
  }
  const bool file = fs::is_regular_file(model_directory, ignored);
  const fs::path beside = file ? fs::path(model_directory).parent_path() : fs::path(model_directory);
  for (const char* name : {"eagle3", "dflash", "assistant"}) {
    const fs::path folder = beside / name;
    if (!found.empty() && found.front().name == name) continue;
    if (fs::exists(folder / "config.json", ignored)) found.push_back({name, folder.string()});
  }
  return found;
}

Status keep_companion(const std::string& model_directory, const DraftFolder& companion) {
  const std::string folder = head_folder_of(model_directory);
  if (folder.empty())
    return Error{Code::kIo, "there is no folder for the drafter; set HOME or XDG_DATA_HOME"};
  std::error_code ignored;  // writing reports it
  fs::create_directories(folder, ignored);
  const nlohmann::ordered_json record = {{"drafter", companion.name}, {"directory", companion.directory}};
  return write_text_file((fs::path(folder) / kCompanion).string(), write_json(record, 1) + "\n");
}

Status keep_head(const std::string& model_directory, const std::string& from) {
  const std::string folder = head_folder_of(model_directory);
  if (folder.empty()) return Error{Code::kIo, "there is no folder for the head; set HOME or XDG_DATA_HOME"};
  std::error_code failed;
  fs::create_directories(folder, failed);  // copying reports it
  for (const char* name : {"config.json", "mtp.safetensors"}) {
    const fs::path part = fs::path(folder) / fmt::format("{}.part", name);
    fs::copy_file(fs::path(from) / name, part, fs::copy_options::overwrite_existing, failed);
    if (!failed) fs::rename(part, fs::path(folder) / name, failed);
    if (failed) return Error{Code::kIo, fmt::format("{} cannot be written: {}", folder, failed.message())};
  }
  return {};
}

}  // namespace ft::cli
