#include "cli/max/max_marker.h"

#include <algorithm>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include "base/json.h"
#include "base/system.h"
#include "cli/library/state_folder.h"

namespace ft::cli {
namespace {

using SortedJson = nlohmann::json;

/// Holds the lock of the marker while it lives.
class LockTurn {
 public:
  explicit LockTurn(const std::string& path)
      : file_(::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (file_ >= 0) ::flock(file_, LOCK_EX);
  }
  ~LockTurn() {
    if (file_ >= 0) ::close(file_);
  }
  LockTurn(const LockTurn&) = delete;
  LockTurn& operator=(const LockTurn&) = delete;

 private:
  int file_;
};

bool lives(int process, std::int64_t start) {
  return process > 0 && start != 0 && process_start(process) == start;
}

/// A truncated or edited file counts as one dead user: then the fans are restored.
std::vector<MaxUser> read(const std::string& path) {
  std::ifstream file(path);
  if (!file) return {};
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const SortedJson all = read_json<SortedJson>(text);
  if (!all.is_object() || !all.contains("users") || !all["users"].is_array()) return {MaxUser{}};
  std::vector<MaxUser> users;
  for (const SortedJson& entry : all["users"]) {
    MaxUser user;
    const auto number = [&](const char* name) {
      const auto found = entry.is_object() ? entry.find(name) : entry.end();
      return found != entry.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
    };
    user.process = static_cast<int>(number("process")), user.start = number("start");
    user.guard = static_cast<int>(number("guard")), user.guard_start = number("guard_start");
    user.idle = number("idle") != 0, user.since = number("since");
    users.push_back(user);
  }
  return users;
}

MaxMarker::Users split(std::vector<MaxUser> users) {
  const auto dead = std::erase_if(users, [](const MaxUser& user) {
    return !lives(user.process, user.start) && !lives(user.guard, user.guard_start);
  });
  return {std::move(users), dead > 0};
}

}  // namespace

Result<MaxMarker> MaxMarker::open() {
  const std::string folder = state_folder();
  if (folder.empty())
    return Error{Code::kIo, "Max mode needs a home folder for its marker; set HOME or XDG_STATE_HOME"};
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  return MaxMarker(folder + "/max-active.json");
}

MaxMarker::Users MaxMarker::users() const {
  if (::access(path_.c_str(), F_OK) != 0) return {};
  const LockTurn turn(path_);
  return split(read(path_));
}

Status MaxMarker::set(MaxUser user) const {
  const LockTurn turn(path_);
  std::vector<MaxUser> users = split(read(path_)).alive;
  for (const MaxUser& other : users) {
    if (other.process == user.process && other.start == user.start) user.since = other.since;
  }
  if (user.since == 0) user.since = std::time(nullptr);
  std::erase_if(users, [&](const MaxUser& other) { return other.process == user.process; });
  users.push_back(user);
  return write(users);
}

Result<std::vector<MaxUser>> MaxMarker::remove(int process) const {
  const LockTurn turn(path_);
  std::vector<MaxUser> users = split(read(path_)).alive;
  std::erase_if(users, [&](const MaxUser& other) { return other.process == process; });
  FT_TRY(write(users));
  return users;
}

Status MaxMarker::write(const std::vector<MaxUser>& users) const {
  if (users.empty()) {
    ::unlink(path_.c_str());
    return {};
  }
  SortedJson all = {{"users", SortedJson::array()}};
  for (const MaxUser& user : users) {
    all["users"].push_back({{"process", user.process},
                            {"start", user.start},
                            {"guard", user.guard},
                            {"guard_start", user.guard_start},
                            {"idle", user.idle ? 1 : 0},
                            {"since", user.since}});
  }
  const std::string text = write_json(all) + "\n", part = path_ + ".part";
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool written = file >= 0 &&
                       ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(file) == 0;
  if (file >= 0) ::close(file);
  if (written && ::rename(part.c_str(), path_.c_str()) == 0) return {};
  return Error{Code::kIo, fmt::format("{}: cannot write it; check the folder and the disk", path_)};
}

}  // namespace ft::cli
