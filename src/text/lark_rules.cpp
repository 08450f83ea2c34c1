#include "text/lark_rules.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

namespace ft {

namespace {

constexpr int kMaxPasses = 16;  // a rule that is named before it is written takes one more
constexpr char kSelf = '\x01';  // the name of the rule itself in its expression

struct Rule {
  std::string_view name;
  std::string expression;
  bool shares = true;  // no attributes
};

using Names = std::unordered_map<std::string_view, std::string_view>;

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

bool is_name(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || is_upper(c) || c == '_'; }

/// The end of a text in quotes, of an expression between slashes, or of JSON, which begin at `from`.
size_t literal_end(std::string_view text, size_t from) {
  const char open = text[from];
  int depth = 0;
  bool quoted = false;
  for (size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      ++i;
    } else if (open != '{') {
      if (c == open && i > from) return i + 1;
    } else if (quoted || c == '"') {
      quoted = c == '"' ? !quoted : quoted;
    } else {
      depth += c == '{' ? 1 : c == '}' ? -1 : 0;
      if (depth == 0) return i + 1;
    }
  }
  return text.size();
}

/// The expression with names replaced, outside of literals.
std::string renamed(std::string_view text, const Names& names) {
  constexpr std::string_view kJson = "%json ";
  std::string out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    std::string_view part;
    if (text[i] == '"' || text[i] == '/') {
      end = literal_end(text, i);
    } else if (text.substr(i).starts_with(kJson)) {
      end = literal_end(text, std::min(i + kJson.size(), text.size() - 1));
    } else if (is_name(text[i])) {
      while (end < text.size() && is_name(text[end])) ++end;
      const auto found = names.find(text.substr(i, end - i));
      if (found != names.end()) part = found->second;
    }
    out += part.empty() ? text.substr(i, end - i) : part;
    i = end;
  }
  return out;
}

std::vector<Rule> rules_of(std::string_view lark) {
  std::vector<Rule> rules;
  while (!lark.empty()) {
    const size_t end = std::min(lark.find('\n'), lark.size());
    const std::string_view line = lark.substr(0, end);
    lark.remove_prefix(std::min(end + 1, lark.size()));
    const size_t size = static_cast<size_t>(std::ranges::find_if_not(line, is_name) - line.begin());
    const bool plain = size > 0 && line.substr(size).starts_with(": ");
    rules.push_back({plain ? line.substr(0, size) : std::string_view(),
                     std::string(plain ? line.substr(size + 2) : line), plain});
  }
  return rules;
}

/// Moves the names of rules that equal an earlier one to `same`, and drops those rules. A rule comes
/// after most rules that it names, so it is compared with their new names.
void drop_same(std::vector<Rule>& rules, Names& same) {
  constexpr std::string_view kSelfName(&kSelf, 1);
  std::map<std::string, std::string_view> first;
  std::vector<Rule> kept;
  for (Rule& rule : rules) {
    rule.expression = renamed(rule.expression, same);
    if (rule.shares) {
      std::string key = renamed(rule.expression, {{rule.name, kSelfName}});
      key += is_upper(rule.name[0]) ? "T" : "R";  // a terminal and a rule differ
      const auto [known, fresh] = first.try_emplace(std::move(key), rule.name);
      if (!fresh) same.emplace(rule.name, known->second);
      if (!fresh) continue;
    }
    kept.push_back(std::move(rule));
  }
  rules = std::move(kept);
}

}  // namespace

std::string shared_lark_rules(std::string_view lark) {
  std::vector<Rule> rules = rules_of(lark);
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    Names same;
    drop_same(rules, same);
    if (same.empty()) break;
    for (Rule& rule : rules) rule.expression = renamed(rule.expression, same);
  }
  std::string all;
  for (const Rule& rule : rules) {
    if (rule.shares) all.append(rule.name).append(": ");
    all += rule.expression + "\n";
  }
  return all;
}

std::string readable_lark(std::string source) {
  for (size_t at = source.find('\x7f'); at != std::string::npos; at = source.find('\x7f', at))
    source.replace(at, 1, "\\u007f");
  return source;
}

}  // namespace ft
