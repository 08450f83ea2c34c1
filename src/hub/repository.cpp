#include "hub/repository.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <vector>

#include "base/ascii.h"
#include "base/utf8.h"
#include "hub/settings.h"

namespace ft::hub {
namespace {

constexpr std::size_t kMaxNameBytes = 96;       // the hub's own limit
constexpr std::size_t kMaxRevisionBytes = 255;  // of a file name, since a ref is a file of the cache
constexpr std::size_t kMaxPathBytes = 1024, kMaxPartBytes = 255;

bool is_plain(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Letters, digits, '-', '_' and '.'; the hub allows neither "--" nor "..", which separate names in a cache.
bool is_name(std::string_view text) {
  if (text.empty() || text.size() > kMaxNameBytes) return false;
  if (!is_plain(text.front()) && text.front() != '_') return false;
  if (text.back() == '-' || text.back() == '.') return false;
  if (text.find("--") != std::string_view::npos || text.find("..") != std::string_view::npos) return false;
  return std::ranges::all_of(text, [](char c) { return is_plain(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_revision(std::string_view text) {
  if (text.empty() || text.size() > kMaxRevisionBytes || !check_file_path(text).ok()) return false;
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~' && c != '@' && c != ':'; });
}

/// The path of a URL after its host, without slashes at the end; "?..." and "#..." are left out.
std::string path_of(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const std::size_t scheme = url.find("://"), begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t slash = url.find('/', begin);
  std::string path(slash == std::string_view::npos ? std::string_view() : url.substr(slash));
  while (path.ends_with('/')) path.pop_back();
  return path;
}

/// The parts of a URL's path, decoded; a slash that was encoded divides too.
std::vector<std::string> path_parts(std::string_view url) {
  std::vector<std::string> parts;
  const std::string path = percent_decoded(path_of(url));
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

std::string Repository::text() const {
  return id() + (revision == kMainRevision ? "" : "@" + revision) +
         (quantisation.empty() ? "" : ":" + quantisation);
}

Result<Repository> parse_repository(std::string_view text) {
  const auto refused = [&] {
    constexpr std::size_t kShown = 120;
    return Error{Code::kInvalid,
                 fmt::format("expected ORG/NAME[@REVISION], such as mlx-community/Qwen3.5-4B-OptiQ-4bit, "
                             "found '{}'",
                             utf8_replace_invalid(text.substr(0, kShown)))};
  };
  Repository repository;
  std::string_view rest = text;
  if (const std::size_t colon = rest.rfind(':'); colon != std::string_view::npos) {
    repository.quantisation = rest.substr(colon + 1);
    if (!is_name(repository.quantisation)) return refused();
    rest = rest.substr(0, colon);
  }
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    repository.revision = rest.substr(at + 1);
    if (!is_revision(repository.revision)) return refused();
    rest = rest.substr(0, at);
  }
  const std::size_t slash = rest.find('/');
  if (slash == std::string_view::npos) return refused();
  repository.organisation = rest.substr(0, slash), repository.name = rest.substr(slash + 1);
  if (!is_name(repository.organisation) || !is_name(repository.name)) return refused();
  return repository;
}

Result<std::string> name_of_address(std::string_view text, const std::string& endpoint) {
  const std::string origin = origin_of(std::string(text));
  if (!origin.starts_with("https://") && !origin.starts_with("http://")) return std::string(text);
  if (origin != origin_of(endpoint) || !path_of(text).starts_with(path_of(endpoint))) {
    return Error{
        Code::kInvalid,
        fmt::format("{} is not a URL of the hub {}; set HF_ENDPOINT for another hub, or give ORG/NAME",
                    utf8_replace_invalid(text), endpoint)};
  }
  const Error refused{Code::kInvalid,
                      fmt::format("{} is not the URL of a model; give ORG/NAME or {}/ORG/NAME",
                                  utf8_replace_invalid(text), endpoint)};
  const std::vector<std::string> parts = path_parts(text);
  const std::size_t skipped = path_parts(endpoint).size();
  const std::vector<std::string> page(
      parts.begin() + static_cast<std::ptrdiff_t>(std::min(skipped, parts.size())), parts.end());
  if (page.size() < 2 || page.size() == 3) return refused;
  if (page[0] == "datasets" || page[0] == "spaces" || page[0] == "collections") return refused;
  Repository repository{page[0], page[1], kMainRevision, ""};
  if (page.size() > 3) {
    const std::string& kind = page[2];
    if (kind != "tree" && kind != "blob" && kind != "resolve" && kind != "raw" && kind != "commit")
      return refused;
    repository.revision = page[3];
    // A pull request or a conversion is the one kind of revision with slashes.
    if (page[3] == "refs" && page.size() > 5) repository.revision += "/" + page[4] + "/" + page[5];
    const std::string& last = page.back();
    constexpr std::string_view kGguf = ".gguf";
    if (last.ends_with(kGguf)) repository.quantisation = last.substr(0, last.size() - kGguf.size());
  }
  const Result<Repository> parsed = parse_repository(repository.text());
  return parsed.ok() ? Result<std::string>(parsed->text()) : Result<std::string>(refused);
}

bool looks_like_repository(std::string_view text) { return parse_repository(text).ok(); }

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_commit(std::string_view text) {
  constexpr std::size_t kDigits = 40;
  return is_hex(text, kDigits);
}

std::string percent_encoded(std::string_view text, bool keep_slashes) {
  return ft::percent_encoded(text, keep_slashes);
}

Status check_file_path(std::string_view path) {
  const auto refused = [&](const char* why) {
    constexpr std::size_t kShown = 120;
    return Error{Code::kCorrupt, fmt::format("the hub lists the file '{}', which {}; nothing was written",
                                             utf8_replace_invalid(path.substr(0, kShown)), why)};
  };
  if (path.empty()) return refused("has no name");
  if (path.size() > kMaxPathBytes) return refused("has more than 1024 bytes");
  const bool wrong = std::ranges::any_of(path, [](char c) { return c == '\\' || c == '\0' || c == '\n'; });
  if (wrong) return refused("has a backslash, a zero or a newline in its name");
  for (std::string_view rest = path;;) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return refused("is not a path inside a folder");
    if (part.size() > kMaxPartBytes) return refused("has a part of more than 255 bytes");
    if (slash == std::string_view::npos) return {};
    rest.remove_prefix(slash + 1);
  }
}

std::string name_of_snapshot(std::string_view directory) {
  while (directory.ends_with('/')) directory.remove_suffix(1);
  std::string_view parts[3];  // the last one first
  for (std::string_view& part : parts) {
    const std::size_t slash = directory.rfind('/');
    part = directory.substr(slash == std::string_view::npos ? 0 : slash + 1);
    directory = directory.substr(0, slash == std::string_view::npos ? 0 : slash);
  }
  constexpr std::string_view kPrefix = "models--";
  if (parts[1] != "snapshots" || !parts[2].starts_with(kPrefix)) return {};
  const std::string_view rest = parts[2].substr(kPrefix.size());
  const std::size_t dashes = rest.find("--");
  return std::string(dashes == std::string_view::npos ? rest : rest.substr(dashes + 2));
}

}  // namespace ft::hub
