// The settings file in TOML: keys are flag names; a table [run] applies to that subcommand and overrides the
// top level. --config names the file; the default is $XDG_CONFIG_HOME/foretoken/config.toml or
// ~/.config/foretoken/config.toml, if it exists.
//    threads = 4
//    [run]
//    temperature = 0.2
//    stop = ["###", "END"]
// A key has at most kMaxKeyParts parts, since the parser of TOML recurses over them. Errors name file and
// line.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

inline constexpr int kMaxKeyParts = 16;

struct Setting {
  std::string section;              // subcommand, or empty: all
  std::string key;                  // flag name, with '_' as '-'
  std::vector<std::string> values;  // one value, or the values of a list
  int line = 0;                     // 1 is the first
};

Result<std::vector<Setting>> parse_settings(const std::string& text, const std::string& path);
/// Reads the file; an empty list if it does not exist and `required` is false.
Result<std::vector<Setting>> read_settings(const std::string& path, bool required);

/// The settings of this process, and their file.
struct SettingsSource {
  std::string path;
  std::vector<Setting> settings;
};
/// `named`: --config; else FORETOKEN_CONFIG, else the default file, which may be absent.
Result<SettingsSource> usual_settings(const std::string& named = "");

}  // namespace ft::cli
