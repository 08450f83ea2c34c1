// ASCII letters and percent escapes in the texts of protocols, whatever the locale. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace ft {

/// Only A to Z change.
std::string lower(std::string_view text);
/// %41 becomes A; an escape that is not whole stays as it is (RFC 3986, section 2.1).
std::string percent_decoded(std::string_view text);
/// Letters, digits and `-._~` stay, and slashes if told; every other byte is escaped.
std::string percent_encoded(std::string_view text, bool keep_slashes);

}  // namespace ft
