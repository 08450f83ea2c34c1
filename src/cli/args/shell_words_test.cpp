#include "cli/args/shell_words.h"

#include <gtest/gtest.h>

#include "base/text_layout.h"
#include "cli/commands/subcommands.h"

namespace ft::cli::shell_words_test {
namespace {

std::vector<std::string> all_texts() {
  std::vector<std::string> texts = {manual_page(all_commands(), "9.9")};
  for (const char* shell : kShells) texts.push_back(completions(all_commands(), shell));
  return texts;
}

std::string escaped(std::string text) {
  for (std::size_t at = 0; (at = text.find('-', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

TEST(ShellWords, NameEverySubcommandAndEveryFlag) {
  for (const Command& command : all_commands()) {
    const std::size_t space = command.name.find(' ');
    const std::string last = space == std::string::npos ? command.name : command.name.substr(space + 1);
    for (const std::string& text : all_texts()) {
      EXPECT_NE(text.find(last), std::string::npos) << last;
      for (const Flag& flag : command.flags.flags()) {
        EXPECT_TRUE(text.find(flag.name) != std::string::npos ||
                    text.find(escaped(flag.name)) != std::string::npos)
            << flag.name;
      }
    }
  }
}

TEST(ShellWords, EscapeWhatAShellOrRoffWouldRead) {
  Command command;
  command.name = "odd";
  command.summary = "It's [odd]: a\\b";
  bool on = false;
  command.flags.add_switch("odd-flag", on, ".begins like a request");
  const std::vector<Command> commands = {command};
  EXPECT_NE(manual_page(commands, "1").find("\\&.begins"), std::string::npos);
  EXPECT_NE(manual_page(commands, "1").find("a\\eb"), std::string::npos);
  EXPECT_NE(completions(commands, "fish").find("'It'\\''s [odd]: a\\b'"), std::string::npos);
  EXPECT_NE(completions(commands, "zsh").find("It'\\''s \\[odd\\]\\:"), std::string::npos);
}

}  // namespace
}  // namespace ft::cli::shell_words_test
