// XXH3 of bytes: whether a file is as it was written, and whether two descriptions are the same. It guards
// against accidents, not against forgery. Thread: pure functions. Cost: the speed of reading. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ft {

std::uint64_t checksum(std::span<const std::byte> bytes);
inline constexpr std::size_t kFingerprintDigits = 32;
/// 128 bits of `text` as hexadecimal digits.
std::string fingerprint(std::string_view text);

}  // namespace ft
