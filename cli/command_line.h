// The words of a command line: which subcommand, which flags with which texts. CLI11 stands behind it, here
// only. Thread: one. Errors: kInvalid for what cannot be parsed, with the way to --help.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace ft::cli {

struct CommandLine {
  const Command* command = nullptr;  // null: `help` is to be printed and nothing done
  Typed typed;
  std::string help;    // or the version
  std::string config;  // --config, or empty
};

Result<CommandLine> parse_command_line(int argc, const char* const* argv,
                                       const std::vector<Command>& commands);

}  // namespace ft::cli
