// What a folder of the cache holds. Pure reading; any thread.
#pragma once

#include <filesystem>
#include <vector>

namespace ft::hub {

/// The paths of its entries, sorted. What cannot be read, or is not there, is left out.
std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

}  // namespace ft::hub
