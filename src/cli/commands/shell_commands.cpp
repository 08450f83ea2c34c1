// `foretoken completions` and `foretoken manual`: files that a package installs with the program.
#include "cli/args/option_flags.h"
#include "cli/args/shell_words.h"
#include "cli/commands/subcommands.h"

namespace ft::cli {
namespace {

struct ShellCommandsOptions {
  OutputOptions output;
  std::string shell;
};

Result<int> print_completions(const ShellCommandsOptions& options, Terminal& terminal) {
  terminal.out(completions(all_commands(), options.shell));
  return 0;
}

Result<int> print_manual(const ShellCommandsOptions& /*options*/, Terminal& terminal) {
  terminal.out(manual_page(all_commands(), FORETOKEN_VERSION));
  return 0;
}

}  // namespace

Command completions_command() {
  auto options = std::make_shared<ShellCommandsOptions>();
  Command command;
  command.name = "completions";
  command.summary = "Print the completions of a shell: bash, zsh or fish";
  command.examples =
      "  foretoken completions bash > ~/.local/share/bash-completion/completions/foretoken\n"
      "  foretoken completions zsh > ~/.zsh/functions/_foretoken\n"
      "  foretoken completions fish > ~/.config/fish/completions/foretoken.fish\n";
  command.flags.positional = "shell";
  command.flags.add("shell", "NAME", reads_choice(options->shell, {std::begin(kShells), std::end(kShells)}),
                    "The shell: bash, zsh or fish");
  command.check = [options]() -> Status {
    if (!options->shell.empty()) return {};
    return Error{Code::kInvalid, "the shell is missing; use foretoken completions bash, zsh or fish"};
  };
  return bind_options(std::move(command), std::move(options), print_completions);
}

Command manual_command() {
  Command command;
  command.name = "manual";
  command.summary = "Print the manual page foretoken(1)";
  command.examples = "  foretoken manual | man -l -\n";
  return bind_options(std::move(command), std::make_shared<ShellCommandsOptions>(), print_manual);
}

}  // namespace ft::cli
