#include "cli/args/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

namespace ft::cli {
namespace {

constexpr const char* kAbout =
    "foretoken runs local language models with exact speculative decoding: a drafter guesses the next "
    "tokens and the model verifies them in one pass. The output has the same tokens as plain decoding, only "
    "faster.\n";
constexpr const char* kFooter =
    "\nEvery flag also has an environment variable (FORETOKEN_MAX_TOKENS=64 for --max-tokens 64) and a key "
    "in the settings file (max-tokens = 64, under [run] for one subcommand): --config FILE, by default "
    "$XDG_CONFIG_HOME/foretoken/config.toml. Flags override the environment; the environment overrides the "
    "file.\n"
    "Exit status: 0 success, 1 the work failed or a comparison found a difference, 2 wrong usage.\n";
constexpr const char* kFirstSteps =
    "\nFirst steps:\n"
    "  foretoken start                              choose a model, fetch it if needed, chat\n"
    "  foretoken pull ORG/NAME                      fetch a model; foretoken models lists them\n"
    "  foretoken bench --quick                      compare plain and speculative decoding\n"
    "  foretoken run \"Write a haiku in Python\"      one answer\n"
    "  foretoken chat                               a conversation\n"
    "  foretoken SUBCOMMAND --help                  flags and examples\n";

void add_flags(CLI::App& app, const Command& command) {
  for (const Flag& flag : command.flags.flags()) {
    std::string names = flag.letter.empty() ? "--" + flag.name : "-" + flag.letter + ",--" + flag.name;
    if (flag.kind == Flag::Kind::kSwitch) {
      app.add_flag(names, flag.help)
          ->group(flag.group)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      continue;
    }
    if (!flag.old_name.empty()) {
      app.add_option("--" + flag.old_name)
          ->group("")
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
    if (flag.name == command.flags.positional || flag.name == command.flags.second_positional)
      names += "," + flag.name;
    CLI::Option* option = app.add_option(names, flag.help)->group(flag.group)->type_name(flag.value_name);
    if (flag.kind == Flag::Kind::kList) {
      // One value per flag, or the list would consume the prompt after it. CLI11 obeys allow_extra_args only
      // if the maximum is at least this.
      option->expected(1, CLI::detail::expected_max_vector_size / 16)
          ->allow_extra_args(false)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    } else {
      option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    }
  }
}

/// "bench decode" is a subcommand of "bench", which precedes it in the list.
CLI::App* add_parser(CLI::App& app, const Command& command) {
  const std::size_t space = command.name.find(' ');
  if (space == std::string::npos) return app.add_subcommand(command.name, command.summary);
  return app.get_subcommand(command.name.substr(0, space))
      ->add_subcommand(command.name.substr(space + 1), command.summary);
}

Typed typed_flags(const CLI::App& app, const Command& command) {
  Typed typed;
  for (const Flag& flag : command.flags.flags()) {
    const CLI::Option* option = app.get_option("--" + flag.name);
    if (option->count() == 0 && !flag.old_name.empty()) option = app.get_option("--" + flag.old_name);
    if (option->count() == 0) continue;
    std::vector<std::string> values = option->results();
    if (flag.kind != Flag::Kind::kList) values.erase(values.begin(), values.end() - 1);
    typed.emplace(flag.name, std::move(values));
  }
  return typed;
}

/// The subcommand that the first words name; null if there is none.
const Command* named_command(std::span<const std::string> words, const std::vector<Command>& commands) {
  const Command* found = nullptr;
  for (const Command& command : commands) {
    const std::size_t space = command.name.find(' ');
    const bool one_word = space == std::string::npos;
    if (words.size() < (one_word ? 1U : 2U) || words[0] != command.name.substr(0, space)) continue;
    if (one_word || words[1] == command.name.substr(space + 1)) found = &command;
  }
  return found;
}

/// True if `word` is a flag whose value is the next word.
bool takes_next_word(const std::string& word, const Command& command) {
  if (word == "--config") return true;
  const auto takes = [&](const Flag& flag) {
    const bool named = word == "--" + flag.name || (!flag.old_name.empty() && word == "--" + flag.old_name) ||
                       (!flag.letter.empty() && word == "-" + flag.letter);
    return named && flag.kind != Flag::Kind::kSwitch;
  };
  return std::ranges::any_of(command.flags.flags(), takes);
}

/// Removes a bare "--" and all words after it from `words` and returns the latter: no flags, even where they
/// begin with a dash (POSIX). CLI11 would give them to the parent of a subcommand.
std::vector<std::string> take_operands(std::vector<std::string>& words,
                                       const std::vector<Command>& commands) {
  const Command* command = named_command(words, commands);
  if (command == nullptr) return {};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (takes_next_word(words[i], *command)) {
      ++i;
    } else if (words[i] == "--") {
      const auto end = words.begin() + static_cast<std::ptrdiff_t>(i);
      std::vector<std::string> operands(end + 1, words.end());
      words.erase(end, words.end());
      return operands;
    }
  }
  return {};
}

Error word_too_many(const std::string& word, const Command& command) {
  return {Code::kInvalid, command.name + ": '" + word +
                              "' is an extra argument; quote a text that has spaces, name a model by "
                              "--model, or see foretoken " +
                              command.name + " --help"};
}

/// Gives each operand to the first flag without a value whose name may be omitted.
Status add_operands(const std::vector<std::string>& operands, const Command& command, Typed& typed) {
  for (const std::string& operand : operands) {
    const auto is_free = [&](const std::string& name) { return !name.empty() && !typed.contains(name); };
    const FlagSet& flags = command.flags;
    if (is_free(flags.positional)) {
      typed[flags.positional] = {operand};
    } else if (is_free(flags.second_positional)) {
      typed[flags.second_positional] = {operand};
    } else if (!flags.rest.empty()) {
      typed[flags.rest].push_back(operand);
    } else {
      return word_too_many(operand, command);
    }
  }
  return {};
}

/// The help with at most one empty line between sections; CLI11 writes two.
std::string close_gaps(std::string help) {
  for (std::size_t at = 0; (at = help.find("\n\n\n", at)) != std::string::npos;) help.erase(at, 1);
  return help;
}

/// CLI11's message as one sentence.
std::string sentence(std::string said, const std::string& command) {
  std::replace(said.begin(), said.end(), '\n', ' ');
  while (!said.empty() && (said.back() == ' ' || said.back() == '.')) said.pop_back();
  return said + "; see foretoken " + (command.empty() ? "" : command + " ") + "--help";
}

/// Subcommands of other programs, and the equivalent ones here.
constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
    {"list", "foretoken models"},       {"ls", "foretoken models"},
    {"ps", "foretoken status"},         {"rm", "foretoken models rm NAME"},
    {"show", "foretoken inspect NAME"}, {"info", "foretoken inspect NAME"},
    {"download", "foretoken pull"},     {"generate", "foretoken run"},
    {"version", "foretoken --version"}, {"help", "foretoken --help, or foretoken SUBCOMMAND --help"},
};

Error unknown_subcommand(const std::string& word, const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  std::string next = nearest(word, names);
  next = next.empty() ? "foretoken --help lists them" : "did you mean '" + next + "'?";
  for (const auto& [elsewhere, here] : kElsewhere) {
    if (word == elsewhere) next = "use " + std::string(here);
  }
  return {Code::kInvalid, "unknown subcommand '" + word + "'; " + next};
}

Error unknown_flag(const std::string& word) {
  return {Code::kInvalid, "unknown flag '" + word + "'; flags follow a subcommand, see foretoken --help"};
}

/// The flag closest to an unknown one.
std::string meant(const std::string& word, const Command& command) {
  std::vector<std::string> names;
  for (const Flag& flag : command.flags.flags()) names.push_back("--" + flag.name);
  return nearest(word.substr(0, word.find('=')), names);
}

}  // namespace

namespace {

std::vector<std::string> parsed_words;  // set once, before any thread

}  // namespace

const std::vector<std::string>& program_words() { return parsed_words; }

Result<CommandLine> parse_command_line(int argc, const char* const* argv,
                                       const std::vector<Command>& commands) {
  parsed_words.assign(argv + std::min(argc, 1), argv + argc);
  CLI::App app(kAbout, "foretoken");
  app.set_version_flag("--version", "foretoken " FORETOKEN_VERSION);
  app.set_help_flag("-h,--help", "Show this help");
  app.footer(std::string(kFirstSteps) + kFooter);
  app.get_formatter()->column_width(34);
  CommandLine line;
  std::vector<CLI::App*> parsers;
  for (const Command& command : commands) {
    CLI::App* sub = add_parser(app, command);
    sub->set_help_flag("-h,--help", "Show this help")->group("Output");
    sub->footer("\nExamples:\n" + command.examples + kFooter);
    sub->add_option("--config", line.config,
                    "Settings file (default: $XDG_CONFIG_HOME/foretoken/config.toml)")
        ->group("Output")
        ->type_name("FILE");
    add_flags(*sub, command);
    sub->allow_extras();  // so that the error can suggest the closest flag
    parsers.push_back(sub);
  }
  app.require_subcommand(0, 1);
  // The deepest subcommand wins: names of two words come after names of one.
  const auto chosen = [&]() -> const Command* {
    const Command* last = nullptr;
    for (std::size_t i = 0; i < commands.size(); ++i) last = parsers[i]->parsed() ? &commands[i] : last;
    return last;
  };
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const std::vector<std::string> operands = take_operands(words, commands);
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // CLI11 wants the last word first
  } catch (const CLI::CallForHelp&) {
    line.help = close_gaps(app.help());  // of the subcommand, if there is one
    return line;
  } catch (const CLI::CallForVersion&) {
    line.help = "foretoken " FORETOKEN_VERSION "\n";
    return line;
  } catch (const CLI::Error& error) {
    if (!words.empty() && named_command(std::span(words).first(1), commands) == nullptr) {
      return argv[1][0] == '-' ? unknown_flag(argv[1]) : unknown_subcommand(argv[1], commands);
    }
    return Error{Code::kInvalid, sentence(error.what(), chosen() != nullptr ? chosen()->name : "")};
  }
  line.command = chosen();
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (!parsers[i]->parsed()) continue;
    if (const auto extras = parsers[i]->remaining(); !extras.empty()) {
      if (!extras.front().starts_with('-')) {
        return word_too_many(extras.front(), commands[i]);
      }
      const std::string near = meant(extras.front(), commands[i]);
      const std::string next =
          near.empty() ? "see foretoken " + commands[i].name + " --help" : "did you mean " + near + "?";
      return Error{Code::kInvalid, commands[i].name + ": unknown flag '" + extras.front() + "'; " + next};
    }
    if (line.command == &commands[i]) line.typed = typed_flags(*parsers[i], commands[i]);
  }
  if (line.command == nullptr) line.help = close_gaps(app.help());
  if (line.command != nullptr) FT_TRY(add_operands(operands, *line.command, line.typed));
  return line;
}

}  // namespace ft::cli
