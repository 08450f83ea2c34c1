#include "base/checksum.h"

#include <gtest/gtest.h>
#include <vector>

namespace ft::checksum_test {
namespace {

TEST(Checksum, IsXxh3) {  // files outlive the program that wrote them
  EXPECT_EQ(checksum({}), 0x2D06800538D394C2U);
  EXPECT_EQ(fingerprint(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(fingerprint("foretoken").size(), kFingerprintDigits);
}

TEST(Checksum, SeesEveryByte) {
  std::vector<std::byte> bytes(5000, std::byte{7});
  const std::uint64_t before = checksum(bytes);
  for (const std::size_t at : {std::size_t{0}, std::size_t{2500}, std::size_t{4999}}) {
    bytes[at] ^= std::byte{1};
    EXPECT_NE(checksum(bytes), before) << at;
    bytes[at] ^= std::byte{1};
  }
  EXPECT_NE(fingerprint("a"), fingerprint("b"));
}

}  // namespace
}  // namespace ft::checksum_test
