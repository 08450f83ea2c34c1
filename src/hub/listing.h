// The hub's answers about a repository: its commit, its files, and the next page of a list. They come from
// the network: every field is checked, and every accepted path can be created on disk. Source: the endpoints
// /api/models/{id}/revision and /tree as huggingface_hub reads them (hf_api.py). Errors: kCorrupt.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ft::hub {

inline constexpr std::size_t kMaxListingBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMaxFiles = 20'000;
inline constexpr std::size_t kMaxPages = 1000;  // of a list of files; the hub puts 1000 on one
inline constexpr std::int64_t kMaxFileBytes = std::int64_t{1} << 50;

struct RemoteFile {
  std::string path;
  std::int64_t size = 0;
  std::string oid;       // git's SHA-1; of the pointer for a file in LFS
  std::string sha256;    // of a file in LFS; else empty
  std::string xet_hash;  // kept for other programs' listings

  /// The name of its blob in the cache: the hash of its content.
  const std::string& etag() const { return sha256.empty() ? oid : sha256; }
};

/// The commit, 40 hexadecimal digits.
Result<std::string> parse_commit(std::string_view json);
/// How access is granted, from the same answer: "auto" or "manual"; empty: access is open.
std::string parse_gate(std::string_view json);
/// One page of files, in the hub's order; folders are left out.
Result<std::vector<RemoteFile>> parse_tree(std::string_view json);
/// The names of branches and tags.
std::vector<std::string> parse_refs(std::string_view json);

/// The URL with rel="next" of a Link header, at `endpoint` whatever host it names: a mirror passes on the
/// links of the hub that it mirrors. Empty: the last page.
std::string next_page(std::string_view link, const std::string& endpoint);

/// trees/COMMIT.json of the cache, with which huggingface_hub checks that a snapshot is complete.
std::string tree_json(const std::vector<RemoteFile>& files);
/// Reads such a file; kNotFound or kCorrupt.
Result<std::vector<RemoteFile>> read_tree_file(const std::string& path);

}  // namespace ft::hub
