// A subcommand: its help, its flags and its work. Each is in its own file (run.cpp, bench.cpp ...) and is
// listed in subcommands.h. resolve() merges the sources of its flags.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/args/flag.h"
#include "cli/args/settings_file.h"
#include "cli/terminal/terminal.h"

namespace ft::cli {

struct Command {
  std::string name, summary, examples;
  FlagSet flags;
  /// Checks combinations of flags; its errors are wrong usage too.
  std::function<Status()> check;
  /// The work; returns exit status 0 or 1. kInvalid means that a flag's value does not fit the model (exit
  /// status 2).
  std::function<Result<int>(Terminal&)> work;
  bool answers_on_stdout = true;  // false: a standard output that cannot be written is not a failure
  std::shared_ptr<void> options;  // the flags write into it
  const bool* json = nullptr;     // points to --json in `options`
  const bool* quiet = nullptr;
};

/// Values by flag name, as typed.
using Typed = std::map<std::string, std::vector<std::string>, std::less<>>;
/// The value of an environment variable, or null.
using Environment = std::function<const char*(const std::string& name)>;

/// "max-tokens" -> "FORETOKEN_MAX_TOKENS".
std::string environment_name(const std::string& flag);

/// Sets every flag of `command` from the first source that has it: command line, environment, [section] of
/// the file, top level of the file. Lists from two sources are not merged.
Status resolve(const Command& command, const Typed& typed, const Environment& environment,
               const std::vector<Setting>& settings, const std::string& settings_path);

/// Unknown keys and sections: kInvalid with file, line and the closest known name.
Status check_settings(const std::vector<Setting>& settings, const std::vector<Command>& commands,
                      const std::string& settings_path);

/// A sentence for every FORETOKEN_ variable that sets no flag, with the closest flag that exists.
std::vector<std::string> stray_variables(const std::vector<std::string>& names,
                                         const std::vector<Command>& commands);

/// The closest of `candidates`, or empty if none is close.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace ft::cli
