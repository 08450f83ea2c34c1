// Texts of protocols: letters of ASCII, percent escapes. No locale matters. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace ft {

/// Only A to Z change.
std::string lower(std::string_view text);
/// %41 becomes A; an escape that is not whole stays as it is (RFC 3986, section 2.1).
std::string percent_decoded(std::string_view text);

}  // namespace ft
