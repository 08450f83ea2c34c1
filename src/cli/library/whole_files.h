// Checks the files of a snapshot against the hashes in their names in the hub's cache. Other programs publish
// downloads without this check.
#pragma once

#include <string>
#include <vector>

#include "cli/terminal/terminal.h"

namespace ft::cli {

struct WholeFiles {
  int checked = 0;
  std::vector<std::string> damaged;  // paths of blobs
};

/// Reads every file whose link names a hash; draws progress on the terminal.
WholeFiles check_whole_files(const std::string& directory, Terminal& terminal);

}  // namespace ft::cli
