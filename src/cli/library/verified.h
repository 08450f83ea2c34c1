// Results of `verify` on this machine: a small file per model in the state folder, named by the identity of
// configuration and weights (hub/summary.h). A result counts for this version's kernels only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace ft::cli {

struct Verified {
  std::string model, identity, version, backend;
  std::int64_t cells = 0, compared = 0;  // tokens
  double accepted = 0;                   // of the drafted tokens
};

/// The version of this program, for a record.
std::string program_version();

/// Writes the record; nothing without a home folder.
Status remember_verified(const Verified& verified);
/// The record of this model, by this version; nothing if it is absent or damaged.
std::optional<Verified> find_verified(const std::string& identity);

}  // namespace ft::cli
