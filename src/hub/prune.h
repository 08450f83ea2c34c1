// Unreferenced files in the hub's cache: snapshots that no ref names (a newer commit took their place), blobs
// that no snapshot links, files in the store of repositories (shared_blobs.h) that no blob links, and partial
// files of downloads that foretoken began. A repository without any ref keeps all its snapshots, because a
// user asked for those commits. Unfinished downloads of other programs stay. Errors: kIo if a file cannot be
// deleted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft::hub {

inline constexpr const char* kSharedFiles = "(files that repositories shared)";

struct Prunable {
  std::string repository;              // "ORG/NAME"; kSharedFiles
  std::vector<std::string> snapshots;  // folders
  std::vector<std::string> files;      // blobs and partial files
  std::vector<std::string> stored;     // shared files that no blob links, or only those in `files` do
  std::string cache;
  std::int64_t bytes = 0;   // of the files
  int young = 0, busy = 0;  // kept: too recent; being fetched by another process
  std::int64_t left_bytes = 0;

  bool deletes() const { return !snapshots.empty() || !files.empty() || !stored.empty(); }
};

/// By repository. Files that changed after `settled_s` (seconds since 1970) may belong to a download that
/// runs, and are left alone, as are partial files that another process has locked. A repository with
/// remaining files has an entry too. Shared files have the last entry, since the blobs must be deleted before
/// them.
std::vector<Prunable> find_prunable(const std::string& cache, std::int64_t settled_s);

/// Deletes the folders and files of one entry.
Status prune(const Prunable& found);

}  // namespace ft::hub
