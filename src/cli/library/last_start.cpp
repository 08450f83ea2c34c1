#include "cli/library/last_start.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/json.h"
#include "base/text_file.h"
#include "cli/library/state_folder.h"

namespace ft::cli {
namespace {

constexpr std::size_t kMaxChoiceBytes = std::size_t{1} << 16;

std::string path(const char* name = "last_start.json") {
  const std::string folder = state_folder();
  return folder.empty() ? folder : folder + "/" + name;
}

constexpr const char* kBegun = "begun_start.json";

nlohmann::json read_record(const std::string& file) {
  const Result<std::string> text =
      file.empty() ? Result<std::string>(Error{Code::kNotFound, ""}) : read_text_file(file, kMaxChoiceBytes);
  return text.ok() ? read_json<nlohmann::json>(*text) : nlohmann::json();
}

}  // namespace

Status begin_start(const LastStart& choice) {
  const std::string file = path(kBegun);
  if (file.empty()) return {};
  std::error_code ignored;  // writing reports it
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
  const nlohmann::ordered_json record = {{"model", choice.model},
                                         {"where", choice.where},
                                         {"client", choice.client},
                                         {"max", choice.max},
                                         {"process", static_cast<std::int64_t>(::getpid())}};
  return write_text_file(file, write_json(record, 1) + "\n");
}

bool keep_start() {
  nlohmann::json record = read_record(path(kBegun));
  if (!record.is_object() ||
      record.value("process", nlohmann::json()) != static_cast<std::int64_t>(::getpid()))
    return false;
  record.erase("process");
  std::error_code ignored;
  std::filesystem::remove(path(kBegun), ignored);
  return write_text_file(path(), write_json(record, 1) + "\n").ok();
}

std::optional<LastStart> last_start() {
  const nlohmann::json record = read_record(path());
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
