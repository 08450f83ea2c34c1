// A flag: its name, its target and the reader of its value. A flag may come from the command line
// (--max-tokens 5), the environment (FORETOKEN_MAX_TOKENS=5) or the settings file (max-tokens = 5). All three
// pass text, so that one reader and one error message serve them. Errors read "expected ..., found '...'";
// the caller adds the origin.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sampling/sample.h"

namespace ft::cli {

/// Parses one value into its target.
using Setter = std::function<Status(const std::string& value)>;

struct Flag {
  enum class Kind { kSwitch, kValue, kList };  // a switch's value is "true" or "false"
  std::string name;                            // "max-tokens"
  std::string old_name;                        // still accepted everywhere, never shown; or empty
  std::string letter;                          // "n", or empty
  Kind kind = Kind::kValue;
  std::string value_name;  // "N"
  std::string help;
  std::string group;  // heading in --help
  Setter set;
  std::function<void()> when_typed;  // called if the value is from the command line; or empty
  bool setting = true;               // false: only on the command line
  bool empty_counts = false;         // an empty environment variable is a value too, not the flag's absence
};

class FlagSet {
 public:
  /// Sets the --help heading of the flags added next.
  void group(std::string heading) { heading_ = std::move(heading); }
  Flag& add(std::string name, std::string value_name, Setter set, std::string help);
  Flag& add_switch(std::string name, bool& target, std::string help);
  Flag& add_list(std::string name, std::string value_name, Setter set, std::string help);

  const Flag* find(std::string_view name) const;
  std::span<const Flag> flags() const { return flags_; }
  /// The flag whose name may be omitted; empty: none.
  std::string positional;
  std::string second_positional;  // likewise, for the second bare argument
  std::string rest;               // the list of all further words after a bare --; empty: there are none

 private:
  Flag& push(Flag flag);
  std::vector<Flag> flags_;
  std::string heading_ = "Options";
};

Setter reads_text(std::string& target);
Setter reads_text(std::optional<std::string>& target);
/// A text that is not empty.
Setter reads_file_name(std::string& target);
Setter reads_bool(bool& target);
Setter reads_on_off(std::optional<bool>& target);
Setter reads_int(int& target, int low, int high);
Setter reads_int(std::int64_t& target, std::int64_t low, std::int64_t high);
Setter reads_int(std::optional<int>& target, int low, int high);
Setter reads_seed(std::uint64_t& target);
/// low <= value <= high; an open end excludes the bound.
struct Range {
  float low = 0, high = 1;
  bool open_low = false, open_high = false;
};
Setter reads_number(std::optional<float>& target, Range range);
/// "auto" is -1.
Setter reads_auto_or(int& target, int low, int high);
Setter reads_ids(std::vector<std::int32_t>& target, bool& given);
Setter reads_bias(std::vector<LogitBias>& target);
Setter reads_probabilities(std::vector<double>& target);
Setter appends_text(std::vector<std::string>& target);
Setter reads_choice(std::string& target, std::vector<std::string> choices);

}  // namespace ft::cli
