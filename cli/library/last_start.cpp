#include "cli/library/last_start.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_file.h"
#include "cli/library/state_folder.h"

namespace ft::cli {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 16;

std::string path() {
  const std::string folder = state_folder();
  return folder.empty() ? folder : folder + "/last_start.json";
}

}  // namespace

Status remember_start(const LastStart& choice) {
  const std::string file = path();
  if (file.empty()) return {};
  std::error_code ignored;  // writing reports it
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
  const nlohmann::ordered_json record = {
      {"model", choice.model}, {"where", choice.where}, {"client", choice.client}, {"max", choice.max}};
  return write_text_file(file, write_json(record, 1) + "\n");
}

std::optional<LastStart> last_start() {
  const std::string file = path();
  const Result<std::string> text =
      file.empty() ? Result<std::string>(Error{Code::kNotFound, ""}) : read_text_file(file, kMaxBytes);
  if (!text.ok()) return std::nullopt;
  const nlohmann::json record = read_json<nlohmann::json>(*text);
  LastStart choice;
  try {
    choice = {record.at("model"), record.at("where"), record.at("client"), record.value("max", false)};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  const bool known = choice.where == "chat" || choice.where == "page" || choice.where == "serve";
  return known ? std::optional(choice) : std::nullopt;
}

}  // namespace ft::cli
