#include "cli/cli.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <unistd.h>

#include "base/log.h"
#include "base/text_layout.h"
#include "cli/args/command_line.h"
#include "cli/commands/subcommands.h"
#include "cli/max/max_mode.h"
#include "cli/terminal/report_json.h"

extern char** environ;  // declared by POSIX

namespace ft::cli {
namespace {

constexpr int kGood = 0, kFailed = 1, kUsage = 2;

int report(Terminal& terminal, const Error& error, bool json, int status) {
  terminal.sentence("foretoken: " + error.message);
  if (json) terminal.out(error_json(error) + "\n");
  terminal.flush();
  return status;
}

/// For errors before the flags are parsed.
bool asks_for_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 || std::strcmp(argv[i], "--json=true") == 0) return true;
  }
  const char* variable = std::getenv("FORETOKEN_JSON");
  return variable != nullptr && (std::strcmp(variable, "1") == 0 || std::strcmp(variable, "true") == 0);
}

/// Fills the command's options from flags, environment and settings file.
Status configure(const CommandLine& line, const std::vector<Command>& commands) {
  // `start` becomes another command, which must read the same file.
  if (!line.config.empty()) ::setenv("FORETOKEN_CONFIG", line.config.c_str(), 1);
  FT_ASSIGN(const SettingsSource source, usual_settings(line.config));
  FT_TRY(check_settings(source.settings, commands, source.path));
  return resolve(
      *line.command, line.typed, [](const std::string& name) { return std::getenv(name.c_str()); },
      source.settings, source.path);
}

std::vector<std::string> environment_names() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    names.emplace_back(text.substr(0, text.find('=')));
  }
  return names;
}

constexpr const char* kMemoryRanOut = "out of memory; close other programs or use a smaller --context";
std::terminate_handler handler_before = nullptr;

/// Must not allocate.
[[noreturn]] void end_process() noexcept {
  try {
    if (std::current_exception()) throw;
  } catch (const std::bad_alloc&) {
    for (const char* words : {"foretoken: ", kMemoryRanOut, "\n"}) {
      if (::write(STDERR_FILENO, words, std::strlen(words)) < 0) break;
    }
    ::_exit(kFailed);
  } catch (...) {
    // a bug: the earlier handler reports it
  }
  handler_before();
  std::abort();
}

int work(const Command& command, Terminal& terminal) {
  const bool json = command.json != nullptr && *command.json;
  try {
    Result<int> status = command.work(terminal);
    terminal.flush();
    if (terminal.gone()) return kGood;  // the reader closed the pipe, which is not a failure
    if (!status.ok()) {
      return report(terminal, status.error(), json, status.error().code == Code::kInvalid ? kUsage : kFailed);
    }
    if (command.answers_on_stdout && !terminal.status().ok())
      return report(terminal, terminal.status().error(), false, kFailed);
    return *status;
  } catch (const std::bad_alloc&) {
    return report(terminal, {Code::kExhausted, kMemoryRanOut}, json, kFailed);
  } catch (const std::exception& error) {
    return report(terminal, {Code::kIo, fmt::format("{}; foretoken doctor may show the cause", error.what())},
                  json, kFailed);
  }
}

}  // namespace

void exit_where_memory_ends() {
  const std::terminate_handler before = std::set_terminate(end_process);
  if (before != end_process) handler_before = before;
}

int run_cli(int argc, const char* const* argv) {
  exit_where_memory_ends();
  std::signal(SIGPIPE, SIG_IGN);  // Terminal sees EPIPE instead
  if (argc > 1 && std::strcmp(argv[1], "fan-guard") == 0) return run_fan_guard(argc, argv);
  Terminal terminal(STDOUT_FILENO, STDERR_FILENO);
  if (ThermalForge::may_move_fans()) {
    if (const std::string recovered = recover_fans(); !recovered.empty()) terminal.note(recovered);
  }
  const std::vector<Command> commands = all_commands();
  Result<CommandLine> line = parse_command_line(argc, argv, commands);
  if (!line.ok()) return report(terminal, line.error(), asks_for_json(argc, argv), kUsage);
  if (line->command == nullptr) {
    constexpr std::size_t kHelpColumns = 106;
    const auto columns = static_cast<std::size_t>(terminal.columns());
    terminal.out(wrapped_text(line->help,
                              terminal.out_is_terminal() ? std::min(columns, kHelpColumns) : kHelpColumns));
    terminal.flush();
    return terminal.status().ok() ? kGood : report(terminal, terminal.status().error(), false, kFailed);
  }
  if (const Status configured = configure(*line, commands); !configured.ok()) {
    const bool json = asks_for_json(argc, argv) || (line->command->json != nullptr && *line->command->json);
    return report(terminal, configured.error(), json, kUsage);
  }
  const bool quiet = line->command->quiet != nullptr && *line->command->quiet;
  terminal.quiet(quiet);
  set_log_level(quiet ? LogLevel::kError : LogLevel::kWarn);
  for (const std::string& sentence : stray_variables(environment_names(), commands)) terminal.note(sentence);
  return work(*line->command, terminal);
}

}  // namespace ft::cli
