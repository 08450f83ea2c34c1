// Where a tier of the prefix cache keeps its files (prefix_cache/cache_tier.h): a folder, or this machine's
// memory for a device whose own memory is small. A file is written under a temporary name and published
// whole. Names are the tier's, without a folder. Owner: a CacheTier. Thread: any, for different files at a
// time; the memory store has a lock for its list. Errors: kIo with the system's words, kNotFound, kExhausted
// (full disk, no memory), kCorrupt for a file with unexpected contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft {

/// kExhausted for a full disk or no memory, otherwise kIo, with the system's words.
Error cache_error(const char* task, int number);

/// The bytes of one file.
class CacheBytes {
 public:
  virtual ~CacheBytes() = default;
  /// 0, or the system's error number.
  virtual int write_at(std::span<const std::byte> bytes, std::int64_t offset) = 0;
  /// kCorrupt if the file ends before `out` is full.
  virtual Status read_at(std::span<std::byte> out, std::int64_t offset) const = 0;
  virtual std::int64_t size() const = 0;
  /// Returns once the bytes survive a power loss, if the store can do that: 0, or the system's error number.
  virtual int sync() { return 0; }
};

class CacheStore {
 public:
  virtual ~CacheStore() = default;
  /// A new file under a temporary name, in place of an older one of that name.
  virtual Result<std::shared_ptr<CacheBytes>> create(const std::string& name) = 0;
  /// The file that create() began is complete: it gets its name.
  virtual Status publish(const std::string& name, const std::shared_ptr<CacheBytes>& bytes) = 0;
  /// Removes the file that create() began.
  virtual void discard(const std::string& name) = 0;
  virtual Result<std::shared_ptr<CacheBytes>> open(const std::string& name) = 0;
  virtual void remove(const std::string& name) = 0;
  /// Marks the file as used, also for a later start.
  virtual void touch(const std::string& name) { (void)name; }
};

/// A folder of files.
class DiskStore final : public CacheStore {
 public:
  static constexpr const char* kPart = ".part";  // ends a temporary name

  explicit DiskStore(std::string directory) : directory_(std::move(directory)) {}
  Result<std::shared_ptr<CacheBytes>> create(const std::string& name) override;
  Status publish(const std::string& name, const std::shared_ptr<CacheBytes>& bytes) override;
  void discard(const std::string& name) override;
  Result<std::shared_ptr<CacheBytes>> open(const std::string& name) override;
  void remove(const std::string& name) override;
  void touch(const std::string& name) override;

  /// A file that is open already, for reading; takes ownership. kCorrupt if it is not a regular file of this
  /// user or root.
  static Result<std::shared_ptr<CacheBytes>> take(int fd);

 private:
  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  const std::string directory_;
};

/// Files in this machine's memory, which goes back to the system with each of them.
class MemoryStore final : public CacheStore {
 public:
  Result<std::shared_ptr<CacheBytes>> create(const std::string& name) override;
  Status publish(const std::string& name, const std::shared_ptr<CacheBytes>& bytes) override;
  void discard(const std::string&) override {}
  Result<std::shared_ptr<CacheBytes>> open(const std::string& name) override;
  void remove(const std::string& name) override;

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<CacheBytes>> files_;
};

}  // namespace ft
