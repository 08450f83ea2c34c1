// Deletes one model of the hub's cache and nothing that another snapshot of its repository uses. The list is
// complete before anything is deleted, so that the user can be asked. The order of deletion leaves a valid
// cache wherever it stops: refs, then the snapshot, then blobs, then files that repositories share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft::hub {

struct Removal {
  std::string snapshot;                         // the folder, or the GGUF file in it
  std::vector<std::string> refs;                // branches and tags that name the snapshot: "main", "v1"
  std::vector<std::string> paths;               // in the order of deletion
  std::vector<std::string> others;              // commits of the repository that stay
  std::int64_t files = 0, bytes = 0;            // blobs and files that go
  std::int64_t kept_files = 0, kept_bytes = 0;  // blobs of the model that stay, since others use them
  std::int64_t stored_bytes = 0;                // of files that other repositories use too: they stay
  std::string cache;
  std::vector<std::string> stored;  // shared files that paths link to: deleted if nothing else uses them
};

/// `repository`: the folder models--ORG--NAME. `model`: one of its snapshots, or a GGUF file in one. The last
/// snapshot takes the whole folder with it, unfinished downloads included.
/// Errors: kBusy while a process fetches files of the repository; kIo if another snapshot cannot be read.
Result<Removal> plan_removal(const std::string& repository, const std::string& model);

/// kIo for files that cannot be deleted; the same command continues.
Status remove(const Removal& removal);

}  // namespace ft::hub
