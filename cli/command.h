// A subcommand: its words for --help, its flags and what it does. Each stands in its own file (run.cpp,
// bench.cpp ...) behind one function of subcommands.h. resolve() brings the sources of its flags together.
// Owner: cli/cli.cpp. Thread: the main thread. Errors: kInvalid from resolve ends the program with exit
// status 2.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/flag.h"
#include "cli/settings_file.h"
#include "cli/terminal.h"

namespace ft::cli {

struct Command {
  std::string name, summary, examples;
  FlagSet flags;
  /// What holds between flags; its errors are the user's too.
  std::function<Status()> check;
  /// The work; exit status 0 or 1. An error kInvalid means that a flag's value does not fit the model:
  /// status 2.
  std::function<Result<int>(Terminal&)> work;
  std::shared_ptr<void> options;  // what the flags point into
  const bool* json = nullptr;     // whether --json was given, in `options`
  const bool* quiet = nullptr;
};

/// Texts by flag name, as typed.
using Typed = std::map<std::string, std::vector<std::string>, std::less<>>;
/// The value of an environment variable, or null.
using Environment = std::function<const char*(const std::string& name)>;

/// "max-tokens" -> "FORETOKEN_MAX_TOKENS".
std::string environment_name(const std::string& flag);

/// Sets every flag of `command` from the first source that has it: typed, environment, [section] of the file,
/// top level of the file. A value stands for the whole flag: a list is not mixed from two sources.
Status resolve(const Command& command, const Typed& typed, const Environment& environment,
               const std::vector<Setting>& settings, const std::string& settings_path);

/// Keys that no subcommand knows, sections that are none: kInvalid with file, line and what was probably
/// meant.
Status check_settings(const std::vector<Setting>& settings, const std::vector<Command>& commands,
                      const std::string& settings_path);

/// For every name that begins with FORETOKEN_ and sets nothing in any subcommand: a sentence with the closest
/// name that does.
std::vector<std::string> stray_variables(const std::vector<std::string>& names,
                                         const std::vector<Command>& commands);

/// The closest of `candidates`, if it is close enough to be meant; else empty.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace ft::cli
