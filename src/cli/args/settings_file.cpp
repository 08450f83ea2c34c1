#include "cli/args/settings_file.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <sstream>
#include <toml++/toml.h>

#include "base/text_file.h"

namespace ft::cli {
namespace {

constexpr std::size_t kMaxSettingsBytes = 1U << 20;

/// Finds keys of many dotted parts without recursion. It follows TOML's strings and comments; where it is not
/// TOML, toml++ stops before it gets further.
class KeyDots {
 public:
  explicit KeyDots(std::string_view text) : text_(text) {}

  /// The line of a key with more than kMaxKeyParts parts; 0: there is none.
  int deep_line() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      if (c == '#') skip_to('\n');
      if (at_ < text_.size() && text_[at_] == '.' && ++dots_ >= kMaxKeyParts) return line_;
      if (at_ < text_.size() && is_end(text_[at_])) dots_ = 0;
      step();
    }
    return 0;
  }

 private:
  static bool is_end(char c) { return c == '\n' || c == '=' || c == ',' || c == '{' || c == '}'; }
  void step() { line_ += at_ < text_.size() && text_[at_++] == '\n' ? 1 : 0; }
  void skip_to(char end) {
    while (at_ < text_.size() && text_[at_] != end) step();
  }
  /// From its opening quotes to after its closing ones; one of a single line ends with the line.
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool many = text_.substr(at_, 3) == three;
    at_ += many ? 3 : 1;
    while (at_ < text_.size() && (many || text_[at_] != '\n')) {
      const bool escape = text_[at_] == '\\' && quote == '"';
      if (!escape && (many ? text_.substr(at_, 3) == three : text_[at_] == quote)) break;
      step();
      if (escape) step();
    }
    for (int left = many ? 5 : 1; left > 0 && at_ < text_.size() && text_[at_] == quote; --left) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1, dots_ = 0;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  Status table(const toml::table& table, const std::string& section) {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (const toml::table* inner = node.as_table(); inner != nullptr) {
        if (!section.empty())
          return wrong(node, name, "is nested too deep; a table names a subcommand, as in [run]");
        FT_TRY(this->table(*inner, name));
        continue;
      }
      Setting setting{section, name, {}, static_cast<int>(node.source().begin.line)};
      std::replace(setting.key.begin(), setting.key.end(), '_', '-');
      FT_TRY(values(node, name, setting));
      settings_.push_back(std::move(setting));
    }
    return {};
  }

  std::vector<Setting> take() {
    std::stable_sort(settings_.begin(), settings_.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return std::move(settings_);
  }

 private:
  Error wrong(const toml::node& node, const std::string& name, const std::string& what) const {
    return Error{Code::kInvalid,
                 fmt::format("{} line {}: {} {}", path_, node.source().begin.line, name, what)};
  }

  Status values(const toml::node& node, const std::string& name, Setting& setting) const {
    if (const toml::array* list = node.as_array(); list != nullptr) {
      for (const toml::node& item : *list) FT_TRY(value(item, name, setting));
      return {};
    }
    return value(node, name, setting);
  }

  Status value(const toml::node& node, const std::string& name, Setting& setting) const {
    if (const auto* text = node.as_string(); text != nullptr) {
      setting.values.push_back(text->get());
    } else if (const auto* whole = node.as_integer(); whole != nullptr) {
      setting.values.push_back(fmt::format("{}", whole->get()));
    } else if (const auto* number = node.as_floating_point(); number != nullptr) {
      setting.values.push_back(fmt::format("{}", number->get()));
    } else if (const auto* truth = node.as_boolean(); truth != nullptr) {
      setting.values.emplace_back(truth->get() ? "true" : "false");
    } else {
      return wrong(node, name, "must be a string, a number, true, false or a list of these");
    }
    return {};
  }

  const std::string& path_;
  std::vector<Setting> settings_;
};

/// $XDG_CONFIG_HOME/foretoken/config.toml, else ~/.config/...; empty without a home.
std::string default_settings_path() {
  const char* config = std::getenv("XDG_CONFIG_HOME");
  if (config != nullptr && *config == '/') return std::string(config) + "/foretoken/config.toml";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.config/foretoken/config.toml"
                                          : std::string();
}

}  // namespace

Result<std::vector<Setting>> parse_settings(const std::string& text, const std::string& path) {
  if (const int line = KeyDots(text).deep_line(); line > 0) {
    return Error{Code::kInvalid,
                 fmt::format("{} line {}: the key has more than {} parts; write flag = value, or [command] "
                             "above it",
                             path, line, kMaxKeyParts)};
  }
  try {
    const toml::table table = toml::parse(text, path);
    Reader reader(path);
    FT_TRY(reader.table(table, ""));
    return reader.take();
  } catch (const toml::parse_error& error) {
    return Error{Code::kInvalid,
                 fmt::format("{} line {}: {}", path, error.source().begin.line, error.description())};
  }
}

Result<std::vector<Setting>> read_settings(const std::string& path, bool required) {
  Result<std::string> text = read_text_file(path, kMaxSettingsBytes);
  if (!text.ok()) {
    if (!required && text.error().code == Code::kNotFound) return std::vector<Setting>();
    return text.error();
  }
  return parse_settings(*text, path);
}

Result<SettingsSource> usual_settings(const std::string& named) {
  const char* variable = std::getenv("FORETOKEN_CONFIG");
  SettingsSource source;
  source.path = !named.empty() ? named : variable != nullptr ? variable : "";
  const bool required = !source.path.empty();
  if (!required) source.path = default_settings_path();
  if (!source.path.empty()) {
    FT_ASSIGN(source.settings, read_settings(source.path, required));
  }
  return source;
}

}  // namespace ft::cli
