// Parses a command line into a subcommand and the text of its flags. Only this file uses CLI11. An error
// points to --help.
#pragma once

#include <string>
#include <vector>

#include "cli/args/command.h"

namespace ft::cli {

struct CommandLine {
  const Command* command = nullptr;  // null: only print `help`
  Typed typed;
  std::string help;    // or the version
  std::string config;  // --config, or empty
};

/// The words of the command line that was parsed last, without the program's name.
const std::vector<std::string>& program_words();

Result<CommandLine> parse_command_line(int argc, const char* const* argv,
                                       const std::vector<Command>& commands);

}  // namespace ft::cli
