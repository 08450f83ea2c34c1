// Rows of key/value caches that several snapshots of a tier share, one file for each group of rows: a
// conversation that grows by a turn writes only the rows of that turn. A file is named by a chain of hashes
// over the tokens before its end. It holds the tokens of its part, which are compared before it is used, so
// other tokens with the same hash never match. Each file counts the snapshots that need it and is removed
// with the last of them. Owner: a CacheTier. Thread: any.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "prefix_cache/cache_file.h"

namespace ft {

/// A group of rows: the tokens since the group before it, and that one's name.
struct RowGroup {
  static constexpr std::string_view kEnding = ".ftrows";

  std::string name;    // kFingerprintDigits
  std::string before;  // empty for the first
  std::span<const std::int32_t> tokens;

  std::string file() const { return name + std::string(kEnding); }
};

/// The groups of one sequence, by kind and in order.
class RowGroups {
 public:
  explicit RowGroups(std::span<const std::int32_t> tokens) : tokens_(tokens) {}
  /// The next group of `kind`, which ends after `end` tokens; none if there are fewer tokens, because they do
  /// not determine its rows then.
  std::optional<RowGroup> next(std::string_view kind, std::int64_t end);

 private:
  struct Chain {
    std::string before;
    std::int64_t at = 0;
  };
  const std::span<const std::int32_t> tokens_;
  std::map<std::string, Chain, std::less<>> chains_;
};

class SharedRows {
 public:
  explicit SharedRows(CacheStore& store) : store_(store) {}

  /// A file that an earlier start left, without users yet.
  void found(const std::string& name, std::int64_t bytes);
  bool has(const std::string& name) const;
  /// One more snapshot needs these files.
  void hold(std::span<const std::string> names);
  /// One snapshot fewer needs them. Unused files are no longer found, and sweep() removes them.
  void release(std::span<const std::string> names);
  void release_unneeded();
  bool to_sweep() const;
  /// Only the thread that writes may call it, because a file of a removed name may be written again.
  void sweep();

  enum class Known { kHeld, kAbsent, kOther };
  /// Holds the group if it exists. kOther: a file of other tokens has its name.
  Known hold(const RowGroup& group, const std::string& identity);
  /// The group has been written, and is held once.
  void add(const std::string& name, std::int64_t bytes);
  std::int64_t bytes() const;
  std::int64_t bytes_of(std::span<const std::string> names) const;

 private:
  struct File {
    std::int64_t bytes = 0;
    int needed = 0;
    bool compared = false;  // its tokens have been compared with its name
  };
  CacheStore& store_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, File> files_;
  std::vector<std::string> gone_;  // names whose files are still there
  std::int64_t bytes_ = 0;
};

/// Opens a group's file and checks that it is of these tokens. kCorrupt if it is not.
Result<CacheFileReader> open_rows(CacheStore& store, const RowGroup& group, const std::string& identity,
                                  std::int64_t deadline_ns);

/// A snapshot's file, and files for its rows that are not stored yet.
class SnapshotWriter final : public ByteSink {
 public:
  struct Target {
    CacheStore& store;
    SharedRows& rows;
    const std::string& identity;
    std::int64_t most_bytes;
    const std::atomic<bool>& stop;
    std::function<void()> before_rows;  // makes room for a group
  };
  SnapshotWriter(const Target& target, const std::string& name, std::span<const std::int32_t> tokens);
  ~SnapshotWriter() override;  // releases what finish() did not return
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  bool put(std::span<const std::byte> bytes) override;
  bool begin_shared(std::string_view kind, std::int64_t tokens) override;
  void end_shared() override;

  struct Written {
    std::int64_t bytes = 0;           // of the snapshot's own file
    std::vector<std::string> shared;  // held
  };
  Result<Written> finish(const CachePlace& place);

 private:
  const Target target_;
  CacheFileWriter main_;
  RowGroups groups_;
  std::optional<CacheFileWriter> rows_;
  std::optional<RowGroup> group_;
  std::vector<std::string> held_;
  std::optional<Error> failure_;
};

class SnapshotReader final : public ByteSource {
 public:
  /// `tokens`: the snapshot's; they must outlive the reader.
  SnapshotReader(CacheStore& store, CacheFileReader& main, std::span<const std::int32_t> tokens,
                 const std::string& identity, std::int64_t deadline_ns)
      : store_(store), main_(main), groups_(tokens), identity_(identity), deadline_ns_(deadline_ns) {}

  bool get(std::span<std::byte> out) override;
  std::int64_t left() const override { return main_.left(); }
  void begin_shared(std::string_view kind, std::int64_t tokens) override;
  void end_shared() override;

  /// Why get() returned false; no words if it did not.
  const Error& error() const { return error_; }
  /// The damaged file of rows; empty if there is none.
  const std::string& bad_rows() const { return bad_rows_; }
  std::int64_t bytes() const { return bytes_; }  // of rows, read

 private:
  void fail(const Error& error, const std::string& rows);

  CacheStore& store_;
  CacheFileReader& main_;
  RowGroups groups_;
  const std::string& identity_;
  const std::int64_t deadline_ns_;
  std::optional<CacheFileReader> rows_;
  std::string name_, bad_rows_;
  std::int64_t bytes_ = 0;
  Error error_{Code::kCorrupt, ""};
};

}  // namespace ft
