#include "cli/library/verified.h"

#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_file.h"
#include "cli/library/state_folder.h"
#include "hub/repository.h"

namespace ft::cli {
namespace {

constexpr std::size_t kMaxVerifiedBytes = std::size_t{1} << 16;
constexpr std::size_t kIdentityDigits = 32;

std::string path_of(const std::string& identity) {
  const std::string folder = state_folder();
  if (folder.empty() || !hub::is_hex(identity, kIdentityDigits)) return {};
  return fmt::format("{}/verified/{}.json", folder, identity);
}

}  // namespace

std::string program_version() { return FORETOKEN_VERSION; }

Status remember_verified(const Verified& verified) {
  const std::string path = path_of(verified.identity);
  if (path.empty()) return {};
  std::error_code ignored;  // writing reports it
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  const nlohmann::ordered_json record = {{"model", verified.model},      {"identity", verified.identity},
                                         {"version", verified.version},  {"backend", verified.backend},
                                         {"cells", verified.cells},      {"compared", verified.compared},
                                         {"accepted", verified.accepted}};
  return write_text_file(path, write_json(record, 1) + "\n");
}

std::optional<Verified> find_verified(const std::string& identity) {
  const std::string path = path_of(identity);
  if (path.empty()) return std::nullopt;
  const Result<std::string> text = read_text_file(path, kMaxVerifiedBytes);
  if (!text.ok()) return std::nullopt;
  const nlohmann::json record = read_json<nlohmann::json>(*text);
  if (!record.is_object()) return std::nullopt;
  Verified verified;
  try {
    verified = {record.at("model"),
                record.at("identity"),
                record.at("version"),
                record.at("backend"),
                record.at("cells"),
                record.at("compared"),
                record.at("accepted").get<double>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  if (verified.identity != identity || verified.version != FORETOKEN_VERSION) return std::nullopt;
  return verified;
}

}  // namespace ft::cli
