#include "cli/commands/response_file.h"

#include <filesystem>
#include <fmt/format.h>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "cli/library/state_folder.h"

namespace ft::cli {
namespace {

Result<std::shared_ptr<api::ResponseStore>> open_file(const std::filesystem::path& path) {
  if (path.has_parent_path()) {
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);  // open() reports a failure
  }
  api::ResponseStore::Limits limits;
  limits.bytes = api::kMaxStoredFileBytes;
  FT_ASSIGN(std::unique_ptr<api::ResponseStore> store, api::ResponseStore::open(path.string(), limits));
  return std::shared_ptr<api::ResponseStore>(std::move(store));
}

}  // namespace

Result<std::shared_ptr<api::ResponseStore>> open_responses(const std::string& choice) {
  if (choice == "off") return std::make_shared<api::ResponseStore>();
  if (choice != "auto") {
    auto store = open_file(choice);
    if (store.ok()) return store;
    return Error{store.error().code, "--response-store " + store.error().message};
  }
  const std::string folder = state_folder();
  std::string problem = "HOME and XDG_STATE_HOME are not set";
  if (!folder.empty()) {
    auto store = open_file(std::filesystem::path(folder) / "responses.sqlite");
    if (store.ok()) return store;
    problem = store.error().message;
  }
  log_warn(fmt::format("stored responses are kept in memory only: {} (--response-store)", problem));
  return std::make_shared<api::ResponseStore>();
}

}  // namespace ft::cli
