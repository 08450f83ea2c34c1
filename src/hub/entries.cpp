#include "hub/entries.h"

#include <algorithm>
#include <system_error>

namespace ft::hub {

namespace fs = std::filesystem;

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
    found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

}  // namespace ft::hub
