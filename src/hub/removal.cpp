#include "hub/removal.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <utility>

#include "hub/cache.h"
#include "hub/entries.h"
#include "hub/listing.h"
#include "hub/partial.h"
#include "hub/shared_blobs.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

std::int64_t bytes_on_disk(const struct stat& facts) {
  constexpr std::int64_t kBlock = 512;
  return std::min<std::int64_t>(facts.st_size, facts.st_blocks * kBlock);
}

/// The files that snapshots use: blobs by name, and files without links by their inode, which may be a
/// blob's.
struct ModelUses {
  using Inode = std::pair<dev_t, ino_t>;
  std::set<std::string> blobs;
  std::map<Inode, std::int64_t> inodes;  // bytes

  bool has(const std::string& name, const struct stat& facts) const {
    return blobs.contains(name) || inodes.contains({facts.st_dev, facts.st_ino});
  }
};

Status add_model_uses(const fs::path& place, ModelUses& uses) {
  const auto add = [&](const fs::path& path) {
    std::error_code plain;
    const fs::path target = fs::read_symlink(path, plain);
    struct stat facts{};
    if (!plain) {
      uses.blobs.insert(target.filename().string());
    } else if (::lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) {
      uses.inodes[{facts.st_dev, facts.st_ino}] = bytes_on_disk(facts);
    }
  };
  std::error_code failed;
  if (!fs::is_directory(fs::symlink_status(place, failed))) {
    add(place);
    return {};
  }
  fs::recursive_directory_iterator entry(place, failed), end;
  for (; !failed && entry != end; entry.increment(failed)) add(entry->path());
  if (!failed) return {};
  return Error{Code::kIo,
               fmt::format("{}: cannot be read: {}; nothing was deleted, since it may use the same "
                           "files",
                           place.string(), failed.message())};
}

std::string small_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

/// Branches, tags and pull requests that name the commit.
std::vector<std::string> refs_to(const fs::path& refs, const std::string& commit) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(refs, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (entry->is_regular_file(ignored) && small_text(entry->path()) == commit)
      names.push_back(entry->path().lexically_relative(refs).generic_string());
  }
  std::ranges::sort(names);
  return names;
}

/// The blobs that the list of a commit's files names, in any state.
std::set<std::string> listed_blobs(const fs::path& repository, const std::string& commit) {
  std::set<std::string> blobs;
  const Result<std::vector<RemoteFile>> files =
      read_tree_file((repository / "trees" / (commit + ".json")).string());
  if (!files.ok()) return blobs;
  for (const RemoteFile& file : *files) blobs.insert(file.etag());
  return blobs;
}

class Planner {
 public:
  Planner(fs::path repository, fs::path model)
      : repository_(std::move(repository)), model_(std::move(model)) {
    plan_.cache = repository_.parent_path().string();
  }

  Result<Removal> plan() {
    FT_TRY(check_idle());
    plan_.snapshot = model_.string();
    FT_TRY(look_at_snapshots());
    if (const fs::path snapshot = snapshot_of(); snapshot == model_ || is_last_in(snapshot)) {
      model_ = snapshot;
      whole_snapshot();
    } else {
      plan_.paths.push_back(model_.string());
    }
    for (const fs::path& blob : entries_of(repository_ / "blobs")) look_at(blob);
    for (const auto& [inode, bytes] : gone_.inodes) {  // regular files, where links are impossible
      if (!kept_.inodes.contains(inode)) ++plan_.files, plan_.bytes += bytes;
    }
    if (takes_all()) plan_.paths.push_back(repository_.string());
    count_stored();
    return std::move(plan_);
  }

 private:
  /// A running download into the repository relies on blobs that no snapshot links yet.
  Status check_idle() const {
    const fs::path locks = repository_.parent_path() / ".locks" / repository_.filename();
    for (const fs::path& lock : entries_of(locks)) {
      FT_ASSIGN(const std::unique_ptr<FileLock> taken, FileLock::try_lock(lock.string()));
      if (taken != nullptr) continue;
      return Error{Code::kBusy, fmt::format("{}: a download of this repository is running; wait until it "
                                            "ends or stop it, then repeat the command",
                                            repository_.string())};
    }
    return {};
  }

  fs::path snapshot_of() const {
    const fs::path all = repository_ / "snapshots";
    const fs::path inside = model_.lexically_relative(all);
    return inside.empty() ? model_ : all / *inside.begin();
  }

  Status look_at_snapshots() {
    const fs::path mine = snapshot_of();
    for (const fs::path& snapshot : entries_of(repository_ / "snapshots")) {
      if (snapshot == mine) continue;
      plan_.others.push_back(snapshot.filename().string());
      FT_TRY(add_model_uses(snapshot, kept_));
      listed_.merge(listed_blobs(repository_, snapshot.filename().string()));
    }
    FT_TRY(add_model_uses(model_, gone_));
    if (mine == model_) return {};
    for (const fs::path& file : entries_of(mine)) {  // a GGUF file: its neighbours are kept
      if (file != model_) FT_TRY(add_model_uses(file, kept_));
    }
    return {};
  }

  /// Whether this GGUF file is the only model of a snapshot.
  bool is_last_in(const fs::path& snapshot) const {
    return std::ranges::none_of(entries_of(snapshot), [&](const fs::path& file) {
      const std::string kind = file.extension().string();
      return file != model_ && (kind == ".gguf" || kind == ".GGUF" || kind == ".safetensors" ||
                                file.filename() == "config.json");
    });
  }

  void whole_snapshot() {
    whole_ = true;
    const std::string commit = model_.filename().string();
    plan_.refs = refs_to(repository_ / "refs", commit);
    for (const std::string& name : plan_.refs) plan_.paths.push_back((repository_ / "refs" / name).string());
    plan_.paths.push_back(model_.string());
    for (const fs::path& note : {repository_ / "trees" / (commit + ".json"),
                                 repository_ / ".no_exist" / commit, repository_ / kPullNotes / commit}) {
      std::error_code absent;
      if (fs::exists(note, absent)) plan_.paths.push_back(note.string());
    }
    mine_ = listed_blobs(repository_, commit);
    std::error_code absent;
    (void)add_model_uses(model_, gone_);
  }

  /// Deletes the folder with everything in it.
  bool takes_all() const { return whole_ && plan_.others.empty(); }

  void look_at(const fs::path& blob) {
    const std::string name = blob.filename().string(), partial = PartialFile::name_for("");
    struct stat facts{};
    if (::stat(blob.c_str(), &facts) != 0) return;
    const bool is_partial = name.ends_with(partial);
    const std::string etag = is_partial ? name.substr(0, name.size() - partial.size()) : name;
    const bool used = gone_.has(name, facts), shared = kept_.has(name, facts);
    const bool unfinished = is_partial && mine_.contains(etag) && !listed_.contains(etag);
    if (used && shared) ++plan_.kept_files, plan_.kept_bytes += bytes_on_disk(facts);
    if (!takes_all() && (shared || (!used && !unfinished))) return;
    gone_.inodes.erase({facts.st_dev, facts.st_ino});  // a hard link to it counts once
    std::error_code failed;
    ++plan_.files;
    if (const auto stored = shared_blob_of(plan_.cache, blob.string())) {
      stored_[*stored].insert(blob.lexically_normal().string());
    } else if (!fs::is_symlink(blob, failed)) {  // else the user keeps it elsewhere: only the link is deleted
      plan_.bytes += bytes_on_disk(facts);
    }
    // For a folder that is a link to another disk only the link is deleted, so its contents are listed.
    if (!takes_all() || fs::is_symlink(repository_, failed)) plan_.paths.push_back(blob.string());
  }

  /// Files that only these links use are deleted too.
  void count_stored() {
    for (const auto& [stored, links] : stored_) {
      plan_.stored.push_back(stored);
      const std::optional<std::set<std::string>> all = links_to_shared_blob(plan_.cache, stored);
      const bool goes = all && std::ranges::includes(links, *all);
      std::error_code absent;
      const std::uintmax_t bytes = fs::file_size(stored, absent);
      if (!absent) (goes ? plan_.bytes : plan_.stored_bytes) += static_cast<std::int64_t>(bytes);
    }
  }

  fs::path repository_, model_;
  std::map<std::string, std::set<std::string>> stored_;  // shared files, with the links to them that go
  bool whole_ = false;                                   // the whole snapshot goes
  ModelUses gone_, kept_;
  std::set<std::string> listed_, mine_;  // blobs that the lists of other commits and of this one name
  Removal plan_;
};

}  // namespace

Result<Removal> plan_removal(const std::string& repository, const std::string& model) {
  return Planner(repository, model).plan();
}

Status remove(const Removal& removal) {
  for (const std::string& path : removal.paths) {
    std::error_code failed;
    fs::remove_all(path, failed);
    if (failed) {
      return Error{Code::kIo, fmt::format("{}: cannot be deleted: {}; fix that and repeat the command", path,
                                          failed.message())};
    }
  }
  for (const std::string& stored : removal.stored) FT_TRY(sweep_shared_blob(removal.cache, stored));
  return {};
}

}  // namespace ft::hub
