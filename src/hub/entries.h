// The entries of a folder of the cache. Only reads; any thread.
#pragma once

#include <filesystem>
#include <vector>

namespace ft::hub {

/// The paths of its entries, sorted. Unreadable or missing entries are left out.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace ft::hub
