#include "cli/args/command.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace ft::cli {
namespace {

Status apply(const Flag& flag, const std::vector<std::string>& values, const std::string& origin) {
  if (flag.kind != Flag::Kind::kList && values.size() != 1) {
    return Error{Code::kInvalid,
                 fmt::format("{}: expected one value, found a list of {}", origin, values.size())};
  }
  for (const std::string& value : values) {
    if (const Status status = flag.set(value); !status.ok()) {
      return Error{status.error().code, fmt::format("{}: {}", origin, status.error().message)};
    }
  }
  return {};
}

/// The setting of this key closest to the subcommand; a later line wins.
const Setting* find_setting(const std::vector<Setting>& settings, const std::string& section,
                            const std::string& key) {
  const Setting* found = nullptr;
  for (const Setting& setting : settings) {
    if (setting.key == key && (setting.section == section || (setting.section.empty() && found == nullptr))) {
      found = &setting;
    }
  }
  return found;
}

/// The name first, then the old one.
std::vector<std::string> names_of(const Flag& flag) {
  if (flag.old_name.empty()) return {flag.name};
  return {flag.name, flag.old_name};
}

}  // namespace

std::string environment_name(const std::string& flag) {
  std::string name = "FORETOKEN_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

Status resolve(const Command& command, const Typed& typed, const Environment& environment,
               const std::vector<Setting>& settings, const std::string& settings_path) {
  for (const Flag& flag : command.flags.flags()) {
    if (const auto given = typed.find(flag.name); given != typed.end()) {
      FT_TRY(apply(flag, given->second, "--" + flag.name));
      if (flag.when_typed) flag.when_typed();
      continue;
    }
    if (!flag.setting) continue;
    bool applied = false;
    for (const std::string& name : names_of(flag)) {
      const std::string variable = environment_name(name);
      const char* value = applied ? nullptr : environment(variable);
      if (value == nullptr || (*value == '\0' && !flag.empty_counts)) continue;
      FT_TRY(apply(flag, {value}, variable));
      applied = true;
    }
    for (const std::string& name : names_of(flag)) {
      const Setting* setting = applied ? nullptr : find_setting(settings, command.name, name);
      if (setting == nullptr) continue;
      FT_TRY(apply(flag, setting->values,
                   fmt::format("{} line {}: {}", settings_path, setting->line, setting->key)));
      applied = true;
    }
  }
  return command.check ? command.check() : Status();
}

Status check_settings(const std::vector<Setting>& settings, const std::vector<Command>& commands,
                      const std::string& settings_path) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  for (const Setting& setting : settings) {
    std::vector<std::string> keys;
    bool section_known = setting.section.empty();
    for (const Command& command : commands) {
      if (!setting.section.empty() && command.name != setting.section) continue;
      section_known = true;
      for (const Flag& flag : command.flags.flags()) {
        if (!flag.setting) continue;
        for (const std::string& name : names_of(flag)) keys.push_back(name);
      }
    }
    const bool known = std::find(keys.begin(), keys.end(), setting.key) != keys.end();
    if (section_known && known) continue;
    const std::string& word = section_known ? setting.key : setting.section;
    const std::string meant = nearest(word, section_known ? keys : names);
    return Error{
        Code::kInvalid,
        fmt::format("{} line {}: {} '{}'{}; {}", settings_path, setting.line,
                    section_known ? "unknown key" : "unknown subcommand", word,
                    section_known && !setting.section.empty() ? fmt::format(" in [{}]", setting.section) : "",
                    meant.empty() ? "see foretoken --help" : fmt::format("did you mean '{}'?", meant))};
  }
  return {};
}

std::vector<std::string> stray_variables(const std::vector<std::string>& names,
                                         const std::vector<Command>& commands) {
  const std::string prefix = environment_name("");
  // Read by cli.cpp, serve and cli/library, and set by the tests.
  std::vector<std::string> known = {"CONFIG", "FRONT", "FULL", "LAUNCH", "MODELS", "TRAINED", "SMOLLM2"};
  for (const Command& command : commands) {
    for (const Flag& flag : command.flags.flags()) {
      if (!flag.setting) continue;
      for (const std::string& name : names_of(flag)) {
        known.push_back(environment_name(name).substr(prefix.size()));
      }
    }
  }
  std::vector<std::string> sentences;
  for (const std::string& name : names) {
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    if (std::find(known.begin(), known.end(), rest) != known.end()) continue;
    const std::string meant = nearest(rest, known);
    sentences.push_back(fmt::format("the environment variable {} matches no flag and is ignored{}", name,
                                    meant.empty() ? "" : fmt::format("; did you mean {}{}?", prefix, meant)));
  }
  return sentences;
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = word.size() / 3 + 2;
  for (const std::string& candidate : candidates) {
    // Levenshtein distance, one row at a time.
    std::vector<std::size_t> row(candidate.size() + 1);
    for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j < row.size(); ++j) {
        const std::size_t replaced = diagonal + (word[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
      }
    }
    if (row.back() < least) least = row.back(), best = candidate;
  }
  return best;
}

}  // namespace ft::cli
