#include "cli/commands/behind_front.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <unistd.h>

#include "api/listing.h"
#include "base/json.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxLine = std::size_t{1} << 20;
constexpr int kFrontGone = 1;

/// A line of stdin; nothing at its end.
std::optional<std::string> read_line() {
  std::string line;
  for (char byte = 0; line.size() < kMaxLine;) {
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    if (byte == '\n') return line;
    line += byte;
  }
  return std::nullopt;
}

void tell(const Json& news) {
  const std::string line = write_json(news) + "\n";
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;  // the front is gone; stdin has ended too
    rest.remove_prefix(static_cast<std::size_t>(sent));
  }
}

/// The model's name as the name of a folder.
std::string folder_name(const std::string& model) {
  std::string name = model;
  for (char& c : name) {
    if (c == '/' || c == '@') c = '-';
  }
  return name;
}

}  // namespace

Result<std::unique_ptr<BehindFront>> BehindFront::from_environment() {
  const char* variable = std::getenv(kFrontVariable);
  if (variable == nullptr || std::string_view(variable) != "1") return std::unique_ptr<BehindFront>();
  ::unsetenv(kFrontVariable);
  const Error wrong{Code::kIo,
                    fmt::format("{} is set, but no front speaks on stdin; unset it", kFrontVariable)};
  const std::optional<std::string> line = read_line();
  const Json json = line ? read_json<Json>(*line) : Json();
  auto front = std::make_unique<BehindFront>();
  try {
    front->name_ = json.at("name").get<std::string>();
    front->directory_ = json.at("directory").get<std::string>();
    front->secret_ = json.at("secret").get<std::string>();
    front->shared_ = {json.at("machine_bytes").get<std::int64_t>(),
                      json.at("device_bytes").get<std::int64_t>()};
  } catch (const nlohmann::json::exception&) {
    return wrong;
  }
  return front;
}

void BehindFront::apply(ServeOptions& serve, ModelOptions& model) const {
  model.directory = directory_;
  serve.shared = shared_;
  serve.host = "127.0.0.1", serve.port = 0;
  serve.api_keys.clear(), serve.origins.clear(), serve.hosts.clear(), serve.aliases.clear();
  serve.models.clear(), serve.client.clear();
  serve.api_key_file.clear(), serve.admin_key_file.clear();
  serve.any_model = true;  // the front has chosen
  if (!serve.cache_dir.empty() && serve.cache_dir != "auto")
    serve.cache_dir = (std::filesystem::path(serve.cache_dir) / folder_name(name_)).string();
}

Status BehindFront::plan(const MemoryReport& needed, const MemoryPlan& plan) const {
  tell(
      Json{{"planned",
            {{"bytes", needed.total()}, {"limit_bytes", plan.usable_bytes}, {"on_device", plan.on_device}}}});
  if (read_line() != "go") std::_Exit(kFrontGone);
  std::thread([] {
    while (read_line()) {
    }
    std::_Exit(kFrontGone);
  }).detach();
  return {};
}

void BehindFront::serves(const api::ModelInfo& model_info, int port) const {
  const Result<api::HttpResponse> entry = api::model_reply(model_info, "", api::Dialect::kOpenAi);
  tell(Json{{"ready", {{"port", port}, {"facts", entry.ok() ? entry->body : ""}}}});
}

}  // namespace ft::cli
