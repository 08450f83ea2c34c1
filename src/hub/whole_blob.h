// Whether a file of the cache holds the bytes that its name promises. Costs a read of the whole file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ft::hub {

/// `etag`: the hash, as blobs are named. `read` receives the size of each piece; false stops the work, and
/// the file counts as whole. A file that cannot be read is not whole.
bool is_whole_blob(const std::string& path, const std::string& etag,
                   const std::function<bool(std::int64_t bytes)>& read);

}  // namespace ft::hub
