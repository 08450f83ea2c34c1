// Texts for a shell, made from the same subcommands and flags as --help: the manual page, and the completions
// of bash, zsh and fish.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/args/command.h"

namespace ft::cli {

inline constexpr const char* kShells[] = {"bash", "zsh", "fish"};

/// foretoken(1), in man's own macros.
std::string manual_page(const std::vector<Command>& commands, std::string_view version);

/// `shell`: one of kShells.
std::string completions(const std::vector<Command>& commands, std::string_view shell);

}  // namespace ft::cli
