#include "cli/args/shell_words.h"

#include <fmt/format.h>

namespace ft::cli {
namespace {

/// Text of a manual page: roff's own characters escaped, a line per line.
std::string roff(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

/// Between single quotes of a shell.
std::string in_quotes(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c != '\n') {
      out += c;
    }
  }
  return out;
}

/// Inside [...] of a zsh argument specification.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : in_quotes(text)) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

bool takes_path(const Flag& flag) {
  return flag.value_name.find("DIR") != std::string::npos ||
         flag.value_name.find("FILE") != std::string::npos;
}

/// "run", "bench decode": the words of the subcommand that was typed so far, in the variable `command`.
std::string bash_completions(const std::vector<Command>& commands) {
  std::string names, cases;
  for (const Command& command : commands) {
    names += (names.empty() ? "" : "|") + std::string("'") + command.name + "'";
    std::string flags, paths;
    for (const Flag& flag : command.flags.flags()) {
      flags += " --" + flag.name;
      if (takes_path(flag)) paths += (paths.empty() ? "--" : "|--") + flag.name;
    }
    cases += fmt::format("    '{}')\n", command.name);
    if (!paths.empty()) {
      cases += fmt::format(
          "      case $previous in {}) COMPREPLY=($(compgen -f -- \"$word\")); return ;; esac\n", paths);
    }
    cases += fmt::format("      COMPREPLY=($(compgen -W '{} --config --help' -- \"$word\")) ;;\n", flags);
  }
  std::string words;
  for (const Command& command : commands) {
    if (command.name.find(' ') == std::string::npos) words += command.name + " ";
  }
  return fmt::format(
      "# bash completion of foretoken, written by `foretoken completions bash`.\n"
      "_foretoken() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} command=\n"
      "  local index candidate\n"
      "  for ((index = 1; index < COMP_CWORD; index++)); do\n"
      "    candidate=\"${{command:+$command }}${{COMP_WORDS[index]}}\"\n"
      "    case $candidate in {}) command=$candidate ;; *) break ;; esac\n"
      "  done\n"
      "  case $command in\n"
      "    '') COMPREPLY=($(compgen -W '{}--help --version' -- \"$word\")) ;;\n"
      "{}"
      "  esac\n"
      "}}\n"
      "complete -F _foretoken foretoken\n",
      names, words, cases);
}

std::string zsh_completions(const std::vector<Command>& commands) {
  std::string list, cases;
  for (const Command& command : commands) {
    if (command.name.find(' ') == std::string::npos) {
      list += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.summary));
    }
    cases += fmt::format("    '{}')\n      _arguments \\\n", command.name);
    for (const Flag& flag : command.flags.flags()) {
      const bool is_switch = flag.kind == Flag::Kind::kSwitch;
      cases += fmt::format(
          "        '{}--{}{}[{}]{}' \\\n", flag.kind == Flag::Kind::kList ? "*" : "", flag.name,
          is_switch ? "" : "=", zsh_text(flag.help),
          is_switch ? ""
                    : fmt::format(":{}:{}", in_quotes(flag.value_name), takes_path(flag) ? "_files" : ""));
    }
    cases += "        '--help[Show this help]' ;;\n";
  }
  return fmt::format(
      "#compdef foretoken\n"
      "# zsh completion of foretoken, written by `foretoken completions zsh`.\n"
      "_foretoken() {{\n"
      "  local -a subcommands\n"
      "  subcommands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe subcommand subcommands\n"
      "    return\n"
      "  fi\n"
      "  local name=$words[2]\n"
      "  [[ $name == bench && $words[3] == (decode|kernels|serve) ]] && name=\"bench $words[3]\"\n"
      "  case $name in\n{}  esac\n"
      "}}\n"
      "_foretoken \"$@\"\n",
      list, cases);
}

std::string fish_completions(const std::vector<Command>& commands) {
  std::string out = "# fish completion of foretoken, written by `foretoken completions fish`.\n";
  for (const Command& command : commands) {
    const std::size_t space = command.name.find(' ');
    const std::string first = command.name.substr(0, space);
    const std::string last = space == std::string::npos ? command.name : command.name.substr(space + 1);
    out += fmt::format(
        "complete -c foretoken -n '{}' -f -a {} -d '{}'\n",
        space == std::string::npos ? "__fish_use_subcommand" : "__fish_seen_subcommand_from " + first, last,
        in_quotes(command.summary));
    for (const Flag& flag : command.flags.flags()) {
      out += fmt::format("complete -c foretoken -n '__fish_seen_subcommand_from {}' -l {}{}{} -d '{}'\n",
                         last, flag.name, flag.letter.empty() ? "" : " -s " + flag.letter,
                         flag.kind == Flag::Kind::kSwitch ? ""
                         : takes_path(flag)               ? " -r -F"
                                                          : " -x",
                         in_quotes(flag.help));
    }
  }
  return out;
}

}  // namespace

std::string manual_page(const std::vector<Command>& commands, std::string_view version) {
  std::string page = fmt::format(
      ".TH FORETOKEN 1 \"\" \"foretoken {}\" \"User Commands\"\n"
      ".SH NAME\nforetoken \\- run local language models with exact speculative decoding\n"
      ".SH SYNOPSIS\n.B foretoken\n.I subcommand\n.RI [ flags ]\n"
      ".SH DESCRIPTION\n"
      "A drafter guesses the next tokens, and the model checks all guesses in one pass.\n"
      "The answer has exactly the tokens that the model alone would have written.\n"
      "Each flag may also come from the environment (FORETOKEN_MAX_TOKENS=64) or from a settings file.\n"
      ".SH SUBCOMMANDS\n",
      roff(version));
  for (const Command& command : commands) {
    page += fmt::format(".SS foretoken {}\n{}.\n", roff(command.name), roff(command.summary));
    std::string_view heading;
    for (const Flag& flag : command.flags.flags()) {
      if (flag.group != heading) page += fmt::format(".PP\n.I {}\n", roff(heading = flag.group));
      page += fmt::format(".TP\n.B {}\\-\\-{}{}\n{}\n",
                          flag.letter.empty() ? "" : fmt::format("\\-{}, ", flag.letter), roff(flag.name),
                          flag.value_name.empty() ? "" : " " + roff(flag.value_name), roff(flag.help));
    }
    page += fmt::format(".PP\nExamples:\n.PP\n.nf\n{}.fi\n", roff(command.examples));
  }
  page +=
      ".SH FILES\n.I $XDG_CONFIG_HOME/foretoken/config.toml\n\\(em settings; \\-\\-config names another "
      "file.\n"
      ".SH EXIT STATUS\n0: success. 1: the work failed, or a comparison found a difference. 2: wrong "
      "usage.\n";
  return page;
}

std::string completions(const std::vector<Command>& commands, std::string_view shell) {
  if (shell == "zsh") return zsh_completions(commands);
  if (shell == "fish") return fish_completions(commands);
  return bash_completions(commands);
}

}  // namespace ft::cli
