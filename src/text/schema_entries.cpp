// SchemaLark's lists of entries: properties in order, each once, then others, as many as minProperties and
// maxProperties require.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "text/json_text.h"
#include "text/pattern.h"
#include "text/schema_lark.h"

namespace ft {

namespace {

constexpr uint64_t kMaxStates = 4096;  // of counting
constexpr uint64_t kMaxDistinct = 8;   // names that differ by construction
constexpr int kLetters = 128;          // first and last characters that distinguish names
constexpr std::string_view kNothing = R"("")";

/// Characters of ASCII for which `in` holds, as a class of a regular expression. Only those that names may
/// begin and end with as they are written.
template <class In>
std::string letters(In in) {
  std::string all;
  for (int c = '0'; c < kLetters; ++c) {
    const bool word = (c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    if (word && in(c)) all += static_cast<char>(c);
  }
  return "[" + all + "]";
}

/// A regular expression of these; empty if there are none.
std::string any_name(const std::vector<std::string>& names) {
  return names.empty() ? std::string() : fmt::format("(?:{})", fmt::join(names, "|"));
}

}  // namespace

/// The conditions of propertyNames on names, one for each alternative: the end of a terminal.
std::vector<std::string> SchemaLark::name_conditions(int id, const Names& names) {
  if (id == SchemaGraph::kAnything) return {""};
  if (never(id)) return {};
  std::vector<std::string> all;
  std::vector<std::string> listed;
  for (const nlohmann::ordered_json& name : graph_.node(id).literals)
    listed.push_back(escaped_for_lark(name.get<std::string>()));
  if (const std::string any = any_name(listed); !any.empty())
    all.push_back(fmt::format(" & /{}/", names.quoted(any)));
  for (const SchemaShape& shape : graph_.node(id).shapes) {
    std::string both;
    for (const std::string& one : text_conditions(shape)) both += fmt::format(" & /{}/", names.quoted(one));
    all.push_back(std::move(both));
  }
  return all;
}

/// Names outside the properties and patterns with their values, and names of each pattern. `also`: a
/// further condition on the names.
std::string SchemaLark::other_entry(const SchemaShape& shape, const Names& names, const std::string& also) {
  std::vector<std::string> taken;
  for (const SchemaShape::Property& property : shape.properties) {
    std::string name = json_quoted(property.name);
    if (!notation_.quoted_keys) name = property.name;
    if (notation_.quoted_keys) name = name.substr(1, name.size() - 2);
    taken.push_back(escaped_for_lark(name));
  }
  std::vector<std::pair<std::string, int>> kinds;  // conditions and the node of the value
  std::string patterned;
  for (const auto& [pattern, id] : shape.patterns) {
    const auto whole = whole_pattern(pattern);
    if (!whole.ok()) {
      unenforced(fmt::format("patternProperties '{}' ({})", pattern.substr(0, 200), whole.error().message));
      continue;
    }
    std::string only = fmt::format("/{}/", names.quoted(*whole));
    for (const auto& [other, ignored] : shape.patterns) {
      const auto second = other == pattern ? whole : whole_pattern(other);
      if (other != pattern && second.ok()) only += fmt::format(" & ~/{}/", names.quoted(*second));
    }
    if (!never(id)) kinds.emplace_back(only, id);
    patterned += fmt::format(" & ~/{}/", names.quoted(*whole));
  }
  if (!never(shape.rest)) kinds.emplace_back(fmt::format("/(?s:.*)/{}", patterned), shape.rest);
  std::string every_name = fmt::format("/{}/", names.any);
  if (!shape.patterns.empty() || shape.names != SchemaGraph::kAnything)
    every_name += R"( & /[^\\]*/)";  // a name as it is read
  if (const std::string any = any_name(taken); !any.empty())
    every_name += fmt::format(" & ~/{}/", names.quoted(any));
  if (!also.empty()) every_name += fmt::format(" & /{}/", names.quoted(also));
  std::string all;
  for (const std::string& named : name_conditions(shape.names, names)) {
    for (const auto& [only, id] : kinds) {
      const std::string name = terminal(fmt::format("{} & {}{}", every_name, only, named));
      all += (all.empty() ? "" : " | ") + names.entry(name, id);
    }
  }
  return all.empty() ? all : rule(all);
}

/// Letters that make a name differ from another one. Without a bound, a model that wants the same name again
/// continues inside the name, because its end is forbidden.
const std::string kRest = "(?s:.{0,47})";

/// `count` entries whose names differ. Two names differ in a bit of the first or last letter; of more, the
/// last letters fall into different classes.
std::string SchemaLark::distinct(const SchemaShape& shape, const Names& names, uint64_t count,
                                 std::string_view comma) {
  const std::string between = comma.empty() ? std::string() : json_quoted(comma) + " ";
  std::string all;
  if (count == 2) {
    for (const bool first : {true, false}) {
      for (int bit = 1; bit < kLetters; bit *= 2) {
        const auto with = [&](int on) {
          const std::string some = letters([&](int c) { return ((c & bit) != 0) == (on != 0); });
          return other_entry(shape, names, first ? some + kRest : kRest + some);
        };
        if (letters([&](int c) { return (c & bit) == 0; }) == "[]") continue;
        const std::string none = with(0), one = with(1);
        all += fmt::format("{}{} {}{} | {} {}{}", all.empty() ? "" : " | ", none, between, one, one, between,
                           none);
      }
    }
    return "(" + all + ")";
  }
  for (uint64_t i = 0; i < count; ++i) {
    const std::string some = letters([&](int c) { return static_cast<uint64_t>(c) % count == i; });
    all += fmt::format("{}{}", i == 0 ? "" : " " + between, other_entry(shape, names, kRest + some));
  }
  return all;
}

/// From `least` to `most` entries of other names; `first`: no entry comes before them.
std::string SchemaLark::others(const SchemaShape& shape, const Names& names, uint64_t least, uint64_t most,
                               bool first, std::string_view comma) {
  const std::string entry = names.others && most > 0 ? other_entry(shape, names, {}) : std::string();
  if (entry.empty()) return std::string(kNothing);
  const std::string between = comma.empty() ? std::string() : json_quoted(comma) + " ";
  const auto repeated = [&](uint64_t from, uint64_t to) {
    if (to == 0) return std::string(kNothing);
    const std::string count =
        to > kMaxStates ? fmt::format("{{{},}}", from) : fmt::format("{{{},{}}}", from, to);
    return fmt::format("({}{}){}", between, entry, count);
  };
  const uint64_t forced = least > kMaxDistinct ? 1 : least;
  if (least > kMaxDistinct) unenforced("minProperties above 8");
  const auto left = [&](uint64_t taken) { return most == SchemaShape::kNoLimit ? most : most - taken; };
  if (forced < 2) {
    if (!first || between.empty()) return repeated(forced, most);
    return fmt::format("({} {}){}", entry, repeated(0, left(1)), forced == 0 ? "?" : "");
  }
  return fmt::format("{}{} {}", first ? "" : between, distinct(shape, names, forced, comma),
                     repeated(0, left(forced)));
}

std::string SchemaLark::entries(const std::vector<Item>& items, const SchemaShape& shape, const Names& names,
                                std::string_view comma) {
  const auto required = static_cast<uint64_t>(std::ranges::count_if(items, &Item::required));
  const bool more = names.others && (!never(shape.rest) || !shape.patterns.empty());
  uint64_t least = shape.min, most = shape.max;
  const bool counts = least > required || most < items.size() || (more && most != SchemaShape::kNoLimit);
  // A state is the number of entries so far, up to the number from which it makes no difference.
  uint64_t top = 1;
  if (!counts) least = 0, most = SchemaShape::kNoLimit;
  if (counts)
    top = std::max<uint64_t>(
        1, std::min<uint64_t>(std::max(least, most == SchemaShape::kNoLimit ? 0 : most), items.size()));
  if (counts && top * items.size() > kMaxStates) {
    unenforced("minProperties and maxProperties of more than 64 properties");
    top = 1, least = 0, most = SchemaShape::kNoLimit;
  }
  std::vector<std::optional<std::string>> after(top + 1);
  for (uint64_t count = 0; count <= top; ++count) {
    const bool can = count <= most && (count >= least || more);
    if (!can) continue;
    const uint64_t left = most == SchemaShape::kNoLimit ? most : most - count;
    after[count] =
        more ? rule(others(shape, names, least > count ? least - count : 0, left, count == 0, comma))
             : std::string(kNothing);
  }
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    std::vector<std::optional<std::string>> now(top + 1);
    for (uint64_t count = 0; count <= top; ++count) {
      const std::optional<std::string>& next = after[std::min(count + 1, top)];
      const bool fits = next && count + 1 <= most;
      std::string both;
      if (fits)
        both = fmt::format("{}{} {}", count > 0 && !comma.empty() ? json_quoted(comma) + " " : "", item->rule,
                           *next);
      if (!item->required && after[count]) both += (both.empty() ? "" : " | ") + *after[count];
      if (!both.empty()) now[count] = rule(both);
    }
    after = std::move(now);
  }
  if (!after[0]) {
    unenforced("minProperties");
    return std::string(kNothing);
  }
  return *after[0];
}

}  // namespace ft
