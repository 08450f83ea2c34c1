// XXH3 of bytes, to check that a file is unchanged or that two descriptions are equal. It detects accidents,
// not forgery. Cost: about as much as reading the bytes.
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
