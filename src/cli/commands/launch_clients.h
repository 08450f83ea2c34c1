// How `foretoken launch` starts each client: its program, and the arguments and variables that point it at a
// server for this run. Nothing is written to the client's own settings. Sources: each client's documentation;
// tests/clients/README.md has the versions that were run.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands/connection_settings.h"

namespace ft::cli {

struct LaunchPlan {
  std::string program;                 // looked up on PATH
  std::vector<std::string> arguments;  // before the user's
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> removed;  // variables that would override these
};

/// The names that `launch` knows, in the order of its help.
std::vector<std::string> launched_clients();
LaunchPlan launch_plan(std::string_view client, const ConnectionFacts& facts);
std::string program_of(std::string_view client);
/// The command that installs it.
std::string installation_of(std::string_view client);
/// Tokens of context that its prompt and tools need; 0: only a few.
std::int64_t needed_context(std::string_view client);

}  // namespace ft::cli
