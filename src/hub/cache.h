// The cache that huggingface_hub, mlx-lm, transformers and llama.cpp share: blobs named by their hash,
// snapshots of links to them, refs. Source: huggingface_hub, "Understand caching", and its file_download.py.
//   CACHE/models--ORG--NAME/blobs/ETAG, snapshots/COMMIT/PATH -> ../../blobs/ETAG, refs/BRANCH (the commit,
//   without a newline), trees/COMMIT.json; CACHE/.locks/models--ORG--NAME/ETAG.lock
// No CACHEDIR.TAG: huggingface_hub before 1.0 takes it for a damaged repository, later ones write it.
// Everything is written under another name first and renamed; a ref is written last. Errors: kIo, kExhausted.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/listing.h"
#include "hub/repository.h"

namespace ft::hub {

/// A folder in a repository's that other programs do not read: for each commit whose pull has begun and not
/// ended, a file with REVISION or REVISION:QUANT as the user gave them.
inline constexpr const char* kPullNotes = ".foretoken";

/// A lock that ends with the object or the process. It only saves work: correctness never depends on it.
class FileLock {
 public:
  /// Null if another process has it. On a file system without locks the lock has no effect.
  static Result<std::unique_ptr<FileLock>> try_lock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int file) : file_(file) {}
  int file_;
};

class HubCache {
 public:
  HubCache(std::string folder, bool symlinks) : folder_(std::move(folder)), symlinks_(symlinks) {}

  const std::string& folder() const { return folder_; }
  std::string blob(const Repository& repository, const std::string& etag) const;
  std::string snapshot(const Repository& repository, const std::string& commit) const;
  std::string lock_path(const Repository& repository, const std::string& etag) const;

  /// The local commit of the revision, if its snapshot exists.
  std::optional<std::string> commit_here(const Repository& repository) const;
  /// Whether the snapshot has this file with its size, as a link or as a regular file.
  bool has_file(const Repository& repository, const std::string& commit, const RemoteFile& file) const;

  /// Makes the folders of the repository and of the snapshot.
  Status prepare(const Repository& repository, const std::string& commit) const;
  /// The blob exists; makes the snapshot's link to it, or a copy where links are impossible.
  Status link(const Repository& repository, const std::string& commit, const RemoteFile& file) const;
  /// The list of a commit's files, with which huggingface_hub checks that a snapshot is complete.
  Status write_tree(const Repository& repository, const std::string& commit,
                    const std::vector<RemoteFile>& files) const;
  /// Keeps the list only if the snapshot has all of its files. Otherwise huggingface_hub calls the snapshot
  /// incomplete when offline. A shorter list would be wrong, because online it counts as the repository's.
  Status settle_tree(const Repository& repository, const std::string& commit,
                     const std::vector<RemoteFile>& files) const;
  /// Records the revision that a pull asked for, until the pull ends.
  Status note_pull(const Repository& repository, const std::string& commit) const;
  void forget_pulls(const Repository& repository) const;
  /// Does nothing for a revision that is a commit, or a ref that has this commit already.
  Status write_ref(const Repository& repository, const std::string& commit) const;

  /// Bytes that unprivileged users may use on the cache's volume, even without the folder; -1: unknown.
  std::int64_t free_bytes() const;

 private:
  std::string of(const Repository& repository) const { return folder_ + "/" + repository.cache_folder(); }
  std::string folder_;
  bool symlinks_;
};

/// Writes `path` through a temporary file of this process.
Status write_file(const std::string& path, const std::string& text);

}  // namespace ft::hub
