// Caller: the sender of a request, identified by its API key. The data of a request (a stored response, a
// running answer, snapshots in the prefix cache) belongs to its caller's key; for other keys it does not
// exist. An operator's key may use everything. Without keys all callers are one caller with full access.
#pragma once

#include <cstdint>

namespace ft::api {

struct Caller {
  std::uint64_t owner = 0;   // number of the key's text, the same after a restart; 0: no key is required
  bool is_operator = false;  // may use data of others
  /// True if the caller may read, continue and remove data of `other`.
  bool may_use(std::uint64_t other) const { return is_operator || owner == other; }
};

}  // namespace ft::api
