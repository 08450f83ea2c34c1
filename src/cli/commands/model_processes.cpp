#include "cli/commands/model_processes.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/system.h"
#include "cli/args/command_line.h"
#include "cli/commands/behind_front.h"
#include "cli/commands/model_path.h"
#include "cli/library/library.h"
#include "cli/terminal/child_process.h"
#include "models/synthetic/model.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using server::ModelNews;

Error read_error(const Json& error) {
  const std::string code = error.value("code", std::string());
  const std::string message = error.value("message", std::string("the process told no reason"));
  if (code == "exhausted") return {Code::kExhausted, message};
  return {Code::kIo, message};  // of its files or its backend: no request can fix it
}

ModelNews read_news(std::string_view line) {
  ModelNews news;
  const Json json = read_json<Json>(line);
  if (!json.is_object()) return news;
  try {
    if (const auto planned = json.find("planned"); planned != json.end()) {
      news.bytes = planned->at("bytes"), news.limit_bytes = planned->at("limit_bytes");
      news.on_device = planned->at("on_device");
      news.kind = ModelNews::Kind::kPlanned;
    } else if (const auto ready = json.find("ready"); ready != json.end()) {
      news.port = ready->at("port"), news.facts = ready->at("facts");
      news.kind = ModelNews::Kind::kReady;
    } else if (const auto error = json.find("error"); error != json.end()) {
      news.error = read_error(*error);
      news.kind = ModelNews::Kind::kFailed;
    }
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return news;
}

class Process : public server::ModelProcess {
 public:
  explicit Process(ChildProcess child) : child_(std::move(child)) {}
  ~Process() override {
    constexpr double kGraceS = 5;
    child_.stop(kGraceS);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int output() const override { return child_.output(); }
  ModelNews read(std::string_view line) override {
    ModelNews news = read_news(line);
    serves_ = serves_ || news.kind == ModelNews::Kind::kReady;
    return news;
  }
  void go() override { child_.tell("go\n"); }
  /// A process that does not serve yet has nothing to finish.
  void stop() override { child_.signal(serves_ && !std::exchange(told_, true) ? SIGTERM : SIGKILL); }
  bool has_ended() override { return child_.has_ended(); }
  void tell(std::string_view line) const { child_.tell(line); }

 private:
  ChildProcess child_;
  bool serves_ = false, told_ = false;
};

class Starter : public server::ModelStarter {
 public:
  Starter(std::vector<NamedModel> models, std::string secret)
      : models_(std::move(models)), secret_(std::move(secret)) {}

  Result<std::unique_ptr<server::ModelProcess>> start(const std::string& id, std::int64_t machine_bytes,
                                                      std::int64_t device_bytes) override {
    const auto model = std::ranges::find(models_, id, &NamedModel::name);
    ChildOptions options;
    options.program = program_path();
    options.arguments = program_words();
    options.variables = {{kFrontVariable, "1"}};
    options.background = options.shares_errors = options.takes_input = true;
    FT_ASSIGN(ChildProcess child, ChildProcess::start(options));
    auto process = std::make_unique<Process>(std::move(child));
    process->tell(write_json(Json{{"name", model->name},
                                  {"directory", model->directory},
                                  {"secret", secret_},
                                  {"machine_bytes", machine_bytes},
                                  {"device_bytes", device_bytes}}) +
                  "\n");
    return std::unique_ptr<server::ModelProcess>(std::move(process));
  }

 private:
  const std::vector<NamedModel> models_;
  const std::string secret_;
};

/// The last part of a path, without ".gguf".
std::string name_of_path(const std::string& path) {
  fs::path place = fs::path(path).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  return place.extension() == ".gguf" ? place.stem().string() : place.filename().string();
}

Status add(std::vector<NamedModel>& models, NamedModel model) {
  const auto same = std::ranges::find(models, model.name, &NamedModel::name);
  if (same == models.end()) {
    models.push_back(std::move(model));
  } else if (same->directory != model.directory) {
    return Error{Code::kInvalid, fmt::format("--models: {} and {} have the same name {}; leave one out",
                                             same->directory, model.directory, model.name)};
  }
  return {};
}

/// The models of this machine that run, or those below `folder`.
Status add_found(std::vector<NamedModel>& models, const std::string& folder) {
  std::vector<KnownModel> found;
  if (folder.empty()) {
    FT_ASSIGN(Library library, read_library());
    found = std::move(library.models);
  } else {
    found = models_below(folder);
  }
  for (const KnownModel& model : found) {
    if (!model.assessment.runs()) continue;
    const bool twice = std::ranges::find(models, model.found.name, &NamedModel::name) != models.end();
    if (!twice) models.push_back({model.found.name, model.found.directory});
  }
  return {};
}

Status add_named(std::vector<NamedModel>& models, const std::string& name) {
  if (is_synth_name(name)) return add(models, {name, name});
  FT_ASSIGN(const std::string directory, find_model(name));
  std::error_code ignored;
  return add(models, {fs::exists(name, ignored) ? name_of_path(name) : name, directory});
}

/// A folder of models, not a model itself.
bool holds_models(const std::string& value) {
  std::error_code ignored;
  return fs::is_directory(value, ignored) && !fs::exists(fs::path(value) / "config.json", ignored);
}

}  // namespace

Result<std::vector<NamedModel>> several_models(const std::vector<std::string>& values) {
  std::vector<NamedModel> models;
  for (const std::string& value : values) {
    if (value == "all") {
      FT_TRY(add_found(models, ""));
    } else if (holds_models(value)) {
      FT_TRY(add_found(models, value));
    } else {
      for (std::size_t begin = 0; begin <= value.size();) {
        const std::size_t end = std::min(value.find(',', begin), value.size());
        if (end > begin) FT_TRY(add_named(models, value.substr(begin, end - begin)));
        begin = end + 1;
      }
    }
    if (models.empty()) {
      return Error{Code::kNotFound,
                   fmt::format("--models: {} has no model that runs; `foretoken models` lists "
                               "the models on this machine",
                               value)};
    }
  }
  return models;
}

std::unique_ptr<server::ModelStarter> model_starter(std::vector<NamedModel> models, std::string secret) {
  return std::make_unique<Starter>(std::move(models), std::move(secret));
}

}  // namespace ft::cli
