// huggingface_hub (2.4 and newer) keeps large files that several repositories use once: CACHE/blobs/HH/HASH,
// to which a repository's blob is a link. HASH.refs lists those links, a line each, relative to the cache; a
// line counts only while its link points there. A file whose list cannot be read is kept: it may be in use.
// Source: huggingface_hub, utils/_shared_blobs.py, layout 1. foretoken adds nothing to that store.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft::hub {

/// The stored file to which a repository's blob links; nullopt for a file of the repository itself.
std::optional<std::string> shared_blob_of(const std::string& cache, const std::string& blob);

/// The links that use a stored file; nullopt if they are unknown.
std::optional<std::set<std::string>> links_to_shared_blob(const std::string& cache,
                                                          const std::string& stored);

struct SharedBlob {
  std::string path;
  std::int64_t bytes = 0;
};
/// Stored files that no link uses, once those in `gone` are deleted.
std::vector<SharedBlob> unused_shared_blobs(const std::string& cache, const std::set<std::string>& gone);

/// Deletes a stored file if no link uses it and no other process works on it. Errors: kIo.
Status sweep_shared_blob(const std::string& cache, const std::string& stored);

}  // namespace ft::hub
