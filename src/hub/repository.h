// Names on the hub: ORG/NAME[@REVISION][:QUANT], and the checks of file names that a server sends. Case is
// kept. A quantisation chooses among the GGUF files of a repository and follows the last colon.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ft::hub {

inline constexpr const char* kMainRevision = "main";

struct Repository {
  std::string organisation, name;
  std::string revision = kMainRevision;  // a branch, a tag or a commit
  std::string quantisation;              // "Q4_K_M"; empty: not requested

  std::string id() const { return organisation + "/" + name; }
  /// The text that parse_repository() reads.
  std::string text() const;
  /// "models--ORG--NAME", its folder in the cache.
  std::string cache_folder() const { return "models--" + organisation + "--" + name; }
};

/// kInvalid with the expected form.
Result<Repository> parse_repository(std::string_view text);

/// ORG/NAME[@REVISION][:QUANT] for a page of a repository at the hub: ENDPOINT/ORG/NAME, also with
/// /tree/REVISION, /blob/REVISION/FILE, /resolve/REVISION/FILE or /commit/COMMIT. A GGUF file names its
/// quantisation. Other text comes back as it is. kInvalid for a page of another kind, and for another host.
Result<std::string> name_of_address(std::string_view text, const std::string& endpoint);

/// Whether `text` has the form of a repository: it does not look like a path, and has one slash.
bool looks_like_repository(std::string_view text);

/// 40 lower-case hexadecimal digits.
bool is_commit(std::string_view text);
/// `digits` lower-case hexadecimal digits.
bool is_hex(std::string_view text, std::size_t digits);

/// Percent-encodes everything but letters, digits and "-._~", and '/' unless `keep_slashes`.
std::string percent_encoded(std::string_view text, bool keep_slashes);

/// kCorrupt for a file name that could leave its folder or cannot be created.
Status check_file_path(std::string_view path);

/// NAME of CACHE/models--ORG--NAME/snapshots/COMMIT; empty for any other folder.
std::string name_of_snapshot(std::string_view directory);

}  // namespace ft::hub
