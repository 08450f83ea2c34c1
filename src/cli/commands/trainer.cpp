#include "cli/commands/trainer.h"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include "base/json.h"
#include "base/replace_file.h"
#include "base/text_file.h"
#include "cli/terminal/child_process.h"
#include "cli/terminal/menu.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTrainerLookMs = 100;
constexpr double kTrainerGraceS = 20;  // to save a checkpoint
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 20;

/// Calls line() for each line of a child's output until it ends. True if it was stopped.
bool read_lines(ChildProcess& child, const std::function<void(const std::string&)>& line,
                const std::function<bool()>& stopped) {
  std::string text;
  for (;;) {
    if (stopped()) {
      child.stop(kTrainerGraceS);
      return true;
    }
    pollfd waiting{child.output(), POLLIN, 0};
    if (::poll(&waiting, 1, kTrainerLookMs) <= 0) continue;
    char bytes[4096];
    const ssize_t got = ::read(child.output(), bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    text.append(bytes, static_cast<std::size_t>(got));
    for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      line(text.substr(0, end));
      text.erase(0, end + 1);
    }
  }
}

/// The last line that a program wrote to its log: for a Python program, the error.
std::string last_line(const std::string& log) {
  Result<std::string> text = read_text_file(log, kMaxLogBytes);
  if (!text.ok()) return {};
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return text->substr(text->rfind('\n') + 1);
}

/// Runs it through env, which keeps the whole path in argv[0], where Python looks for its environment.
ChildOptions child_options(const std::string& program, std::vector<std::string> arguments,
                           const std::string& log) {
  ChildOptions options;
  options.program = "/usr/bin/env", options.arguments = std::move(arguments);
  options.arguments.insert(options.arguments.begin(), program);
  options.background = true, options.log = log;
  return options;
}

/// Runs a program to its end; true if it succeeded.
bool succeeds(const std::string& program, std::vector<std::string> arguments, const std::string& log) {
  const ChildOptions options = child_options(program, std::move(arguments), log);
  Result<ChildProcess> child = ChildProcess::start(options);
  if (!child.ok()) return false;
  read_lines(*child, [](const std::string&) {}, [] { return false; });
  return child->wait() == 0;
}

bool has_torch(const std::string& python, const std::string& log) {
  return succeeds(python, {"-c", "import torch"}, log);
}

constexpr const char* kGivePython =
    "or give --python FILE, an interpreter that has PyTorch (pip install torch)";

Result<std::string> make_environment(const TrainerChoice& choice, const std::string& log,
                                     Terminal& terminal) {
  const std::string base = find_program("python3");
  if (base.empty()) {
    return Error{Code::kNotFound,
                 fmt::format("tune needs Python 3.9 or later with PyTorch to train, and there is no python3; "
                             "install it, {}",
                             kGivePython)};
  }
  const std::string folder = choice.folder + "/venv";
  const std::string question =
      fmt::format("PyTorch is missing; fetch it from PyPI into {} (up to 3 GB, once)?", folder);
  bool agreed = choice.yes;
  if (!agreed && Menu::can_ask(terminal)) agreed = Menu(terminal).confirm(question, true).value_or(false);
  if (!agreed) {
    return Error{Code::kNotFound, fmt::format("{} cannot import torch; let tune fetch PyTorch with --yes, {}",
                                              base, kGivePython)};
  }
  terminal.note(fmt::format("making {} and fetching PyTorch", folder));
  const std::string python = folder + "/bin/python";
  const bool made = succeeds(base, {"-m", "venv", folder}, log) &&
                    succeeds(python, {"-m", "pip", "install", "--quiet", "torch"}, log) &&
                    has_torch(python, log);
  if (made) return python;
  const std::string why = last_line(log);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return Error{Code::kIo, fmt::format("PyTorch could not be fetched ({}); check the network and the space "
                                      "on the disk, {}",
                                      why.empty() ? "python3 -m venv failed" : why, kGivePython)};
}

Result<std::string> find_python(const TrainerChoice& choice, const std::string& log, Terminal& terminal) {
  if (!choice.python.empty()) {
    if (has_torch(choice.python, log)) return choice.python;
    const std::string why = last_line(log);
    return Error{Code::kNotFound, fmt::format("--python: {} cannot import torch{}{}; run its pip install "
                                              "torch, or leave --python out",
                                              choice.python, why.empty() ? "" : ": ", why)};
  }
  for (const std::string& python : {choice.folder + "/venv/bin/python", find_program("python3")}) {
    std::error_code ignored;
    if (!python.empty() && fs::exists(python, ignored) && has_torch(python, log)) return python;
  }
  return make_environment(choice, log, terminal);
}

}  // namespace

Result<Trainer> find_trainer(const TrainerChoice& choice, Terminal& terminal) {
  Trainer trainer;
  trainer.package = choice.folder + "/package";
  trainer.log = choice.folder + "/trainer.log";
  for (const PackageFile& file : tune_package())
    FT_TRY(replace_file(fmt::format("{}/foretoken_tune/{}", trainer.package, file.name), file.text));
  FT_ASSIGN(trainer.python, find_python(choice, trainer.log, terminal));
  return trainer;
}

Result<nlohmann::json> run_trainer(const Trainer& trainer, const std::string& task, const std::string& job,
                                   const std::function<void(const nlohmann::json&)>& line,
                                   const std::function<bool()>& stopped) {
  ChildOptions options = child_options(trainer.python, {"-m", "foretoken_tune", task, job}, trainer.log);
  options.variables = {{"PYTHONPATH", trainer.package}, {"PYTHONUNBUFFERED", "1"}};
  FT_ASSIGN(ChildProcess child, ChildProcess::start(options));
  nlohmann::json last = nlohmann::json::object();
  const bool ended_early = read_lines(
      child,
      [&](const std::string& text) {
        nlohmann::json object = read_json<nlohmann::json>(text);
        if (!object.is_object()) return;
        last = std::move(object);
        line(last);
      },
      stopped);
  if (ended_early) return Error{Code::kCancelled, "stopped"};
  const int status = child.wait();
  if (last.value("phase", "") == "failed")
    return Error{Code::kIo, fmt::format("the training failed: {}", last.value("message", ""))};
  if (status == 0) return last;
  constexpr int kKilled = 128 + 9;
  if (status == kKilled)
    return Error{Code::kExhausted,
                 "the training was killed, probably because memory ran out; free some "
                 "memory and start tune again: it continues"};
  return Error{Code::kIo, fmt::format("the training ended with status {}: {}; its messages are in {}", status,
                                      last_line(trainer.log), trainer.log)};
}

}  // namespace ft::cli
