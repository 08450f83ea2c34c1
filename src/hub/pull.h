// Brings a repository into the cache: commit, list, choice of files, disk space, small files, a check of the
// configuration, weights, and the ref last. All files are of one commit. A pull that ends early leaves
// nothing that another program takes for complete, and the next pull continues it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "hub/choice.h"
#include "hub/transfer.h"

namespace ft::hub {

/// The disk space that a download of `bytes` leaves free: a tenth of it and 32 MiB, at most 1 GiB.
std::int64_t spare_bytes(std::int64_t bytes);

struct PullOptions {
  Repository repository;
  std::vector<std::string> include, exclude;
  bool dry_run = false;  // only plan
  bool repair = false;   // check local files against their hashes, and fetch damaged ones again
  TransferOptions transfer;
  /// Examines the folder once the small files are there; its error ends the pull before the weights.
  std::function<Status(const std::string& snapshot)> examine;
};

/// In offline mode it returns the local files without a request. Errors: kNotFound, kExhausted (room),
/// kCorrupt (a hash that stays wrong), kBusy (may pass), kIo, kCancelled.
Result<PullPlan> pull(const HubSettings& settings, Transport& transport, const Pace& pace, PullEvents& events,
                      const PullOptions& options);

}  // namespace ft::hub
