#include "hub/cache.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kLockMode = 0664;

Error system_error(const char* what, const std::string& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT;
  return {full ? Code::kExhausted : Code::kIo,
          fmt::format("{}: cannot {}: {}; {}", path, what, std::strerror(number),
                      full ? "free some space and repeat the command" : "check the folder's permissions")};
}

Status make_folder(const std::string& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return system_error("make the folder", path, failed.value());
  return {};
}

std::string temporary(const std::string& path) {
  return fmt::format("{}.{}.foretoken", path, static_cast<long>(::getpid()));
}

/// rename(2), which replaces a file or a link in one step.
Status put_in_place(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  const int number = errno;
  ::unlink(from.c_str());
  return system_error("name the file", to, number);
}

/// A hard link if possible, else a copy: for a snapshot on a file system without symbolic links.
Status copy_blob(const std::string& blob, const std::string& path) {
  const std::string copy = temporary(path);
  std::error_code failed;
  fs::create_hard_link(blob, copy, failed);
  if (failed) fs::copy_file(blob, copy, fs::copy_options::overwrite_existing, failed);
  if (failed) return system_error("copy the file", path, failed.value());
  return put_in_place(copy, path);
}

std::string note_of(const Repository& repository) {
  return repository.revision + (repository.quantisation.empty() ? "" : ":" + repository.quantisation);
}

}  // namespace

Status write_file(const std::string& path, const std::string& text) {
  const std::string name = temporary(path);
  {
    std::ofstream file(name, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) {
      const int number = errno;
      ::unlink(name.c_str());
      return system_error("write", path, number);
    }
  }
  return put_in_place(name, path);
}

Result<std::unique_ptr<FileLock>> FileLock::try_lock(const std::string& path) {
  FT_TRY(make_folder(fs::path(path).parent_path().string()));
  for (int tries = 0; tries < 100; ++tries) {
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kLockMode);
    if (file < 0) return system_error("make the lock", path, errno);
    if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
      const bool held = errno == EWOULDBLOCK;
      std::unique_ptr<FileLock> lock(new FileLock(file));
      return held ? std::unique_ptr<FileLock>() : std::move(lock);
    }
    // Another program may have removed the file between open and flock: then this lock has no effect.
    struct stat mine{}, named{};
    const bool same = ::fstat(file, &mine) == 0 && ::stat(path.c_str(), &named) == 0 &&
                      mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
    if (same) return std::unique_ptr<FileLock>(new FileLock(file));
    ::close(file);
  }
  return Error{Code::kIo,
               fmt::format("{}: another program keeps removing this lock; stop that program", path)};
}

FileLock::~FileLock() { ::close(file_); }

std::string HubCache::blob(const Repository& repository, const std::string& etag) const {
  return of(repository) + "/blobs/" + etag;
}

std::string HubCache::snapshot(const Repository& repository, const std::string& commit) const {
  return of(repository) + "/snapshots/" + commit;
}

std::string HubCache::lock_path(const Repository& repository, const std::string& etag) const {
  return folder_ + "/.locks/" + repository.cache_folder() + "/" + etag + ".lock";
}

std::optional<std::string> HubCache::commit_here(const Repository& repository) const {
  std::string commit = repository.revision;
  if (!is_commit(commit)) {
    std::ifstream file(of(repository) + "/refs/" + repository.revision, std::ios::binary);
    constexpr std::streamsize kCommitDigits = 40;
    commit.assign(static_cast<std::size_t>(kCommitDigits), '\0');
    if (!file.read(commit.data(), kCommitDigits) || !is_commit(commit)) return std::nullopt;
  }
  std::error_code ignored;
  if (!fs::is_directory(snapshot(repository, commit), ignored)) return std::nullopt;
  return commit;
}

bool HubCache::has_file(const Repository& repository, const std::string& commit,
                        const RemoteFile& file) const {
  std::error_code failed;
  const std::uintmax_t size = fs::file_size(snapshot(repository, commit) + "/" + file.path, failed);
  return !failed && size == static_cast<std::uintmax_t>(file.size);
}

Status HubCache::prepare(const Repository& repository, const std::string& commit) const {
  for (const std::string& path :
       {of(repository) + "/blobs", of(repository) + "/refs", snapshot(repository, commit)}) {
    FT_TRY(make_folder(path));
  }
  return {};
}

Status HubCache::link(const Repository& repository, const std::string& commit, const RemoteFile& file) const {
  const std::string path = snapshot(repository, commit) + "/" + file.path;
  FT_TRY(make_folder(fs::path(path).parent_path().string()));
  if (!symlinks_) return copy_blob(blob(repository, file.etag()), path);
  std::string target;
  for (const char c : file.path) target += c == '/' ? "../" : "";
  target += "../../blobs/" + file.etag();
  std::error_code unread;
  if (fs::read_symlink(path, unread) == target && !unread) return {};
  const std::string name = temporary(path);
  ::unlink(name.c_str());
  if (::symlink(target.c_str(), name.c_str()) != 0) return copy_blob(blob(repository, file.etag()), path);
  return put_in_place(name, path);
}

Status HubCache::write_tree(const Repository& repository, const std::string& commit,
                            const std::vector<RemoteFile>& files) const {
  const std::string folder = of(repository) + "/trees";
  const std::string path = folder + "/" + commit + ".json";
  std::error_code ignored;
  if (fs::exists(path, ignored)) return {};  // a commit never changes
  FT_TRY(make_folder(folder));
  return write_file(path, tree_json(files));
}

Status HubCache::settle_tree(const Repository& repository, const std::string& commit,
                             const std::vector<RemoteFile>& files) const {
  const bool whole =
      std::ranges::all_of(files, [&](const RemoteFile& file) { return has_file(repository, commit, file); });
  if (whole) return write_tree(repository, commit, files);
  const std::string folder = of(repository) + "/trees";
  std::error_code failed;
  fs::remove(folder + "/" + commit + ".json", failed);
  if (failed) return system_error("remove", folder + "/" + commit + ".json", failed.value());
  fs::remove(folder, failed);  // if it is empty
  return {};
}

Status HubCache::note_pull(const Repository& repository, const std::string& commit) const {
  const std::string folder = of(repository) + "/" + kPullNotes;
  FT_TRY(make_folder(folder));
  return write_file(folder + "/" + commit, note_of(repository));
}

void HubCache::forget_pulls(const Repository& repository) const {
  const fs::path folder = of(repository) + "/" + kPullNotes;
  std::error_code failed;
  std::vector<fs::path> ended;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (!fs::is_regular_file(entry->path(), failed)) continue;
    std::ifstream file(entry->path(), std::ios::binary);
    const std::string note((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (note == note_of(repository)) ended.push_back(entry->path());
  }
  for (const fs::path& note : ended) fs::remove(note, failed);
  fs::remove(folder, failed);  // if it is empty
}

Status HubCache::write_ref(const Repository& repository, const std::string& commit) const {
  if (is_commit(repository.revision) || commit_here(repository) == commit) return {};
  const std::string path = of(repository) + "/refs/" + repository.revision;
  FT_TRY(make_folder(fs::path(path).parent_path().string()));
  return write_file(path, commit);
}

std::int64_t HubCache::free_bytes() const {
  std::error_code ignored;
  fs::path place = fs::absolute(folder_, ignored);
  while (!fs::exists(place, ignored) && place.has_relative_path()) place = place.parent_path();
  struct statvfs volume{};
  if (::statvfs(place.c_str(), &volume) != 0) return -1;
  return static_cast<std::int64_t>(volume.f_bavail) * static_cast<std::int64_t>(volume.f_frsize);
}

}  // namespace ft::hub
