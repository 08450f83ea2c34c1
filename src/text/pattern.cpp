#include "text/pattern.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>
#include <vector>

#include "text/ffi.h"

namespace ft {

namespace {

#define FT_DATE                                                                                          \
  "[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|" \
  "02-(?:0[1-9]|1[0-9]|2[0-8]))"
#define FT_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define FT_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define FT_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

/// Every text that one of these allows has the format; not every text of the format is allowed.
constexpr std::pair<std::string_view, const char*> kTextFormats[] = {
    {"date", FT_DATE},
    {"time", FT_TIME},
    {"date-time", FT_DATE "T" FT_TIME},
    {"duration",
     "P(?:[0-9]{1,6}W|(?:[0-9]{1,6}Y(?:[0-9]{1,6}M(?:[0-9]{1,6}D)?)?|[0-9]{1,6}M(?:[0-9]{1,6}D)?|[0-9]{1,6}D)"
     "(?:T[0-9]{1,6}[HMS])?|T(?:[0-9]{1,6}H(?:[0-9]{1,6}M(?:[0-9]{1,6}S)?)?|[0-9]{1,6}M(?:[0-9]{1,6}S)?|"
     "[0-9]{1,6}S))"},
    {"email", "[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@" FT_LABEL "(?:\\." FT_LABEL ")+"},
    {"hostname", FT_LABEL "(?:\\." FT_LABEL ")*"},
    {"ipv4", FT_OCTET "(?:\\." FT_OCTET "){3}"},
    {"ipv6",
     "(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,3})?::"
     "(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,2})?"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"uri", "[a-z][a-z0-9+.-]*:\\/\\/[A-Za-z0-9._~:\\/?@!$&'()*+,;=-]+"},
    // OpenAPI formats that only describe the use of a text.
    {"password", ""},
    {"binary", ""},
    {"byte", ""},
};

#undef FT_DATE
#undef FT_TIME
#undef FT_OCTET
#undef FT_LABEL

struct Search {
  std::string lark;
  bool found = false;
  uint64_t work = 0;
};

Result<Search> search(std::string_view pattern, std::string_view text) {
  FfiBytes lark, message;
  int32_t found = 0;
  uint64_t work = 0;
  const ft_text_code code = ft_text_pattern_search(ffi_data(pattern), pattern.size(), ffi_data(text),
                                                   text.size(), &lark.raw, &found, &work, &message.raw);
  if (code != FT_TEXT_OK) return ffi_error(code, message, "");
  return Search{std::string(lark.view()), found != 0, work};
}

/// Calls `see(place, depth)` for each character that is neither escaped nor in a class. A bracket is outside
/// of its group.
template <class See>
void read_pattern(std::string_view pattern, See see) {
  int depth = 0;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
    } else if (in_class) {
      in_class = c != ']';
    } else if (c == '[') {
      in_class = true;
      if (pattern.substr(i + 1).starts_with('^')) ++i;
      if (pattern.substr(i + 1).starts_with(']')) ++i;
    } else {
      depth -= c == ')' ? 1 : 0;
      see(i, depth);
      depth += c == '(' ? 1 : 0;
    }
  }
}

/// The alternatives of an expression outside of groups and classes.
std::vector<std::string_view> alternatives(std::string_view pattern) {
  std::vector<std::string_view> parts;
  size_t from = 0;
  read_pattern(pattern, [&](size_t at, int depth) {
    if (pattern[at] != '|' || depth > 0) return;
    parts.push_back(pattern.substr(from, at - from));
    from = at + 1;
  });
  parts.push_back(pattern.substr(from));
  return parts;
}

bool has_anchor(std::string_view pattern) {
  bool found = false;
  read_pattern(pattern, [&](size_t at, int) { found = found || pattern[at] == '^' || pattern[at] == '$'; });
  return found;
}

/// What is inside a group that is all of the pattern.
std::optional<std::string_view> inside_group(std::string_view pattern) {
  if (!pattern.starts_with('(')) return std::nullopt;
  size_t end = std::string_view::npos;
  read_pattern(pattern, [&](size_t at, int depth) {
    if (pattern[at] == ')' && depth == 0) end = std::min(end, at);
  });
  if (end != pattern.size() - 1) return std::nullopt;
  const std::string_view inside = pattern.substr(1, end - 1);
  if (inside.starts_with("?:")) return inside.substr(2);
  return inside.starts_with('?') ? std::nullopt : std::optional(inside);
}

bool ends_with_anchor(std::string_view part) {
  if (!part.ends_with('$')) return false;
  const std::string_view before = part.substr(0, part.size() - 1);
  const size_t last = before.find_last_not_of('\\');
  const size_t escapes = before.size() - (last == std::string_view::npos ? 0 : last + 1);
  return escapes % 2 == 0;
}

/// Adds the alternatives of `pattern`, each for whole texts. `begins`, `ends`: its match is at that end of
/// the text. An anchor may be at an end of an alternative, also of one inside a group.
Status add_whole(std::string_view pattern, bool begins, bool ends, std::string& whole) {
  for (std::string_view part : alternatives(pattern)) {
    bool first = begins, last = ends;
    if (part.starts_with('^')) first = true, part.remove_prefix(1);
    if (ends_with_anchor(part)) last = true, part.remove_suffix(1);
    if (!has_anchor(part)) {
      whole += fmt::format("{}{}(?:{}){}", whole.empty() ? "" : "|", first ? "" : "(?s:.*)", part,
                           last ? "" : "(?s:.*)");
      continue;
    }
    const std::optional<std::string_view> inside = inside_group(part);
    if (!inside) return Error{Code::kInvalid, "an anchor is in the middle of it"};
    FT_TRY(add_whole(*inside, first, last, whole));
  }
  return {};
}

}  // namespace

Result<bool> pattern_matches(std::string_view pattern, std::string_view text, uint64_t* work) {
  const Result<Search> found = search(pattern, text);
  if (work != nullptr) *work += found.ok() ? found->work : kMaxPatternWork;
  if (!found.ok()) return found.error();
  return found->found;
}

Result<std::string> whole_pattern(std::string_view pattern) {
  FT_ASSIGN(const Search found, search(pattern, ""));
  std::string whole;
  FT_TRY(add_whole(found.lark, false, false, whole));
  return whole;
}

const char* format_pattern(std::string_view format) {
  const auto* const found =
      std::ranges::find(kTextFormats, format, &std::pair<std::string_view, const char*>::first);
  return found == std::end(kTextFormats) ? nullptr : found->second;
}

std::string escaped_for_lark(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (std::string_view(R"(\/.*+?()[]{}|^$-&~#)").find(c) != std::string_view::npos) {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\x{:02x}", c);
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace ft
