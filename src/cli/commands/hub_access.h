// Support of `pull`, `setup` and `start` for fetching a model: settings from the environment, a clock,
// Ctrl-C, and progress: a live line on a terminal, a line every ten seconds elsewhere, or JSON lines.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/args/flag.h"
#include "cli/args/options.h"
#include "cli/terminal/terminal.h"
#include "hub/pull.h"
#include "hub/skeleton.h"

namespace ft::cli {

struct PullChoice {
  std::string name, ca_file;
  std::vector<std::string> include, exclude;
  int connections = 8, piece_mb = 64, retry_wait_ms = 1000;
  bool dry_run = false, repair = false, events = false, force = false;
};

void add_pull_flags(FlagSet& flags, PullChoice& choice);

struct PullOutcome {
  hub::PullPlan plan;
  bool interrupted = false;  // Ctrl-C: fetched bytes are kept
  std::int64_t kept_bytes = 0;
};

/// Fetches the model. An architecture that does not run is refused after the small files, unless forced.
Result<PullOutcome> fetch_model(const PullChoice& choice, bool quiet, Terminal& terminal);

/// A repository's folder without its weights, in the temporary folder; removed with the object.
class RemoteFolder {
 public:
  explicit RemoteFolder(std::string directory) : directory_(std::move(directory)) {}
  RemoteFolder(RemoteFolder&& other) noexcept
      : skeleton(std::move(other.skeleton)), directory_(std::exchange(other.directory_, {})) {}
  RemoteFolder& operator=(RemoteFolder&&) = delete;
  RemoteFolder(const RemoteFolder&) = delete;
  RemoteFolder& operator=(const RemoteFolder&) = delete;
  ~RemoteFolder();

  const std::string& directory() const { return directory_; }
  hub::Skeleton skeleton;

 private:
  std::string directory_;
};

/// Reads the small files, the headers and the given ranges of the repository `name` (hub/skeleton.h).
Result<RemoteFolder> read_remote(const std::string& name, const hub::WantedRanges& wanted, bool quiet,
                                 Terminal& terminal);

}  // namespace ft::cli
