// The settings file: TOML, keys are the flags' names, a table [run] holds for that subcommand alone and wins
// over the top level. --config names it, else $XDG_CONFIG_HOME/foretoken/config.toml (or ~/.config/...), if
// it is there.
//   threads = 4
//   [run]
//   temperature = 0.2
//   stop = ["###", "END"]
// Owner: a value. Thread: any. Errors: kInvalid naming file and line: bad TOML, a value that is no text,
// number, truth value or list of these; kNotFound for a file that --config names; kIo.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct Setting {
  std::string section;              // subcommand, or empty: all
  std::string key;                  // a flag's name, '_' read as '-'
  std::vector<std::string> values;  // one, or those of a list
  int line = 0;                     // 1 is the first
};

Result<std::vector<Setting>> parse_settings(const std::string& text, const std::string& path);
/// An empty list if `required` is false and there is no such file.
Result<std::vector<Setting>> read_settings(const std::string& path, bool required);

}  // namespace ft::cli
