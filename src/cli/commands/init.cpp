// `foretoken init`: writes a settings file in which every setting is explained and commented out.
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text_file.h"
#include "cli/args/option_flags.h"
#include "cli/args/settings_file.h"
#include "cli/commands/subcommands.h"

namespace ft::cli {
namespace {

struct InitOptions {
  OutputOptions output;
  std::string file;
};

/// "# help" in lines of at most 100 columns, then "# key = VALUE".
void add_setting(const Flag& flag, std::string& text) {
  constexpr std::size_t kColumns = 100;
  std::string line = "#";
  for (std::size_t at = 0; at < flag.help.size();) {
    const std::size_t end = std::min(flag.help.find(' ', at), flag.help.size());
    const std::string word = flag.help.substr(at, end - at);
    if (line.size() + word.size() + 1 > kColumns) text += line + "\n", line = "#";
    line += " " + word;
    at = end + 1;
  }
  text += line + "\n";
  const std::string value =
      flag.kind == Flag::Kind::kSwitch ? "true" : fmt::format("\"{}\"", flag.value_name);
  text += fmt::format("# {} = {}\n\n", flag.name, flag.kind == Flag::Kind::kList ? "[" + value + "]" : value);
}

/// The settings of `command` that are not in `known` yet.
std::string section(const Command& command, std::vector<std::string>& known) {
  std::string text;
  for (const Flag& flag : command.flags.flags()) {
    const bool seen = std::find(known.begin(), known.end(), flag.name) != known.end();
    if (!flag.setting || seen || flag.name == "json" || flag.name == "quiet" ||
        flag.name.starts_with("prompt"))
      continue;
    known.push_back(flag.name);
    add_setting(flag, text);
  }
  return text;
}

std::string settings_text() {
  std::string text =
      "# Settings of foretoken. A line without the # sets a flag of the same name; flags and variables such "
      "as\n"
      "# FORETOKEN_THREADS=4 override it. A table such as [serve] counts for that subcommand alone.\n\n";
  std::vector<std::string> known;
  const Command chat = chat_command(), serve = serve_command();
  text += section(chat, known);
  text += "# [serve]\n\n" + section(serve, known);
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

Result<std::string> chosen_path(const std::string& named) {
  if (!named.empty()) return named;
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return std::string(config) + "/foretoken/config.toml";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return std::string(home) + "/.config/foretoken/config.toml";
  return Error{Code::kInvalid, "HOME is not set; name the file: foretoken init --file FILE"};
}

Result<int> run_init(const InitOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::string path, chosen_path(options.file));
  std::error_code failed;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, failed))) {
    return Error{Code::kInvalid,
                 fmt::format("{} already exists; foretoken init does not overwrite files", path)};
  }
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
  FT_TRY(write_text_file(path, settings_text()));
  terminal.out(options.output.json ? write_json(nlohmann::ordered_json{{"file", path}}) + "\n"
                                   : fmt::format("wrote {} with every setting, commented out\n", path));
  return 0;
}

}  // namespace

Command init_command() {
  auto options = std::make_shared<InitOptions>();
  Command command;
  command.name = "init";
  command.summary = "Write a settings file that explains every setting";
  command.examples =
      "  foretoken init\n"
      "  foretoken init --file foretoken.toml   then: foretoken run --config foretoken.toml\n";
  command.flags.group("Settings");
  command.flags
      .add("file", "FILE", reads_file_name(options->file),
           "The file to write (default: the usual settings file)")
      .setting = false;
  return bind_options(std::move(command), std::move(options), run_init);
}

}  // namespace ft::cli
