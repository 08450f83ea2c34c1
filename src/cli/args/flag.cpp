#include "cli/args/flag.h"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/utf8.h"

namespace ft::cli {
namespace {

constexpr std::size_t kShownBytes = 60;  // max bytes of a wrong value in a message

Error expected(std::string_view what, std::string_view found) {
  std::string shown(found.substr(0, kShownBytes));
  shown = utf8_replace_invalid(shown);
  return Error{Code::kInvalid, fmt::format("expected {}, found '{}{}'", what, shown,
                                           found.size() > kShownBytes ? "..." : "")};
}

template <class T>
std::optional<T> whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <class Target, class T>
Setter reads_whole(Target& target, T low, T high) {
  return [&target, low, high](const std::string& text) -> Status {
    const auto value = whole<T>(text);
    if (!value || *value < low || *value > high) {
      return expected(fmt::format("a whole number from {} to {}", low, high), text);
    }
    target = *value;
    return {};
  };
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    while (!part.empty() && (part.front() == ' ' || part.front() == '\n')) part.remove_prefix(1);
    while (!part.empty() && (part.back() == ' ' || part.back() == '\n')) part.remove_suffix(1);
    parts.push_back(part);
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::optional<bool> truth(std::string_view text) {
  if (text == "true" || text == "1" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "0" || text == "no" || text == "off") return false;
  return std::nullopt;
}

}  // namespace

Flag& FlagSet::push(Flag flag) {
  flag.group = heading_;
  flags_.push_back(std::move(flag));
  return flags_.back();
}

Flag& FlagSet::add(std::string name, std::string value_name, Setter set, std::string help) {
  Flag flag;
  flag.name = std::move(name), flag.value_name = std::move(value_name), flag.help = std::move(help);
  flag.set = std::move(set);
  return push(std::move(flag));
}

Flag& FlagSet::add_switch(std::string name, bool& target, std::string help) {
  Flag& flag = add(std::move(name), "", reads_bool(target), std::move(help));
  flag.kind = Flag::Kind::kSwitch;
  return flag;
}

Flag& FlagSet::add_list(std::string name, std::string value_name, Setter set, std::string help) {
  Flag& flag = add(std::move(name), std::move(value_name), std::move(set), std::move(help));
  flag.kind = Flag::Kind::kList;
  return flag;
}

const Flag* FlagSet::find(std::string_view name) const {
  for (const Flag& flag : flags_) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

Setter reads_text(std::string& target) {
  return [&target](const std::string& text) -> Status {
    target = text;
    return {};
  };
}

Setter reads_text(std::optional<std::string>& target) {
  return [&target](const std::string& text) -> Status {
    target = text;
    return {};
  };
}

Setter reads_file_name(std::string& target) {
  return [&target](const std::string& text) -> Status {
    if (text.empty()) {
      return Error{Code::kInvalid, "the file name is empty; give a file, or omit the flag"};
    }
    target = text;
    return {};
  };
}

Setter reads_bool(bool& target) {
  return [&target](const std::string& text) -> Status {
    const auto value = truth(text);
    if (!value) return expected("true or false", text);
    target = *value;
    return {};
  };
}

Setter reads_on_off(std::optional<bool>& target) {
  return [&target](const std::string& text) -> Status {
    const auto value = truth(text);
    if (!value) return expected("on or off", text);
    target = *value;
    return {};
  };
}

Setter reads_int(int& target, int low, int high) { return reads_whole(target, low, high); }
Setter reads_int(std::int64_t& target, std::int64_t low, std::int64_t high) {
  return reads_whole(target, low, high);
}
Setter reads_int(std::optional<int>& target, int low, int high) { return reads_whole(target, low, high); }
Setter reads_seed(std::uint64_t& target) { return reads_whole(target, std::uint64_t{0}, ~std::uint64_t{0}); }

Setter reads_number(std::optional<float>& target, Range range) {
  return [&target, range](const std::string& text) -> Status {
    const auto value = whole<float>(text);
    const bool inside = value && std::isfinite(*value) &&
                        (range.open_low ? *value > range.low : *value >= range.low) &&
                        (range.open_high ? *value < range.high : *value <= range.high);
    if (!inside) {
      const bool closed = !range.open_low && !range.open_high;
      return expected(closed ? fmt::format("a number from {} to {}", range.low, range.high)
                             : fmt::format("a number {} {} and {} {}", range.open_low ? "above" : "from",
                                           range.low, range.open_high ? "below" : "at most", range.high),
                      text);
    }
    target = *value;
    return {};
  };
}

Setter reads_auto_or(int& target, int low, int high) {
  return [&target, low, high](const std::string& text) -> Status {
    const auto value = text == "auto" ? std::optional<int>(-1) : whole<int>(text);
    if (!value || (text != "auto" && (*value < low || *value > high))) {
      return expected(fmt::format("auto or a whole number from {} to {}", low, high), text);
    }
    target = *value;
    return {};
  };
}

Setter reads_ids(std::vector<std::int32_t>& target, bool& given) {
  return [&target, &given](const std::string& text) -> Status {
    target.clear();
    for (const std::string_view part : split(text)) {
      const auto value = whole<std::int32_t>(part);
      if (!value || *value < 0) return expected("token ids such as 1,2,3", text);
      target.push_back(*value);
    }
    given = true;
    return {};
  };
}

Setter reads_bias(std::vector<LogitBias>& target) {
  return [&target](const std::string& text) -> Status {
    for (const std::string_view part : split(text)) {
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos) return expected("ID=VALUE such as 17=-5", text);
      const auto token = whole<std::int32_t>(part.substr(0, equals));
      const auto value = whole<float>(part.substr(equals + 1));
      if (!token || *token < 0 || !value || std::isnan(*value))
        return expected("ID=VALUE such as 17=-5", text);
      target.push_back(LogitBias{*token, *value});
    }
    return {};
  };
}

Setter reads_probabilities(std::vector<double>& target) {
  return [&target](const std::string& text) -> Status {
    target.clear();
    for (const std::string_view part : split(text)) {
      const auto value = whole<double>(part);
      if (!value || !(*value >= 0 && *value <= 1)) return expected("probabilities such as 0.9,0.8,0.7", text);
      target.push_back(*value);
    }
    return {};
  };
}

Setter appends_text(std::vector<std::string>& target) {
  return [&target](const std::string& text) -> Status {
    target.push_back(text);
    return {};
  };
}

Setter reads_choice(std::string& target, std::vector<std::string> choices) {
  return [&target, choices = std::move(choices)](const std::string& text) -> Status {
    for (const std::string& choice : choices) {
      if (text != choice) continue;
      target = text;
      return {};
    }
    return expected(fmt::format("one of {}", fmt::join(choices, ", ")), text);
  };
}

}  // namespace ft::cli
