// Progress events of a pull. Calls never overlap, but come from several threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ft::hub {

struct PullPlan {
  std::string repository, commit, snapshot;  // snapshot: the folder
  std::int64_t files = 0, bytes = 0, missing_bytes = 0;
  std::vector<std::string> damaged;  // files that a repair fetches again
  std::string gate;                  // of a dry run: "auto" or "manual" if a licence must be accepted
  std::string refusal;               // of a dry run: why the hub does not hand out the files; empty: it does
};

struct PullProgress {
  std::int64_t bytes = 0, total = 0;  // includes earlier runs
  double bytes_per_s = 0;
  int connections = 0;
};

class PullEvents {
 public:
  virtual ~PullEvents() = default;
  virtual void planned(const PullPlan&) {}
  virtual void progressed(const PullProgress&) {}
  virtual void published(const std::string& /*path*/, std::int64_t /*bytes*/, const std::string& /*etag*/) {}
  /// A request is repeated after `wait_s`; `path` is empty for a request about the repository.
  virtual void repeated(const std::string& /*path*/, const std::string& /*why*/, double /*wait_s*/) {}
  /// A sentence for the user.
  virtual void noted(const std::string& /*sentence*/) {}
};

}  // namespace ft::hub
