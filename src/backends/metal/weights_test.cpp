// Packed weights have the same bytes however many workers pack them.
#include "backends/metal/weights.h"

#include <cstring>
#include <gtest/gtest.h>

#include "backends/random_weights.h"

namespace ft::metal::weights_test {
namespace {

std::vector<std::byte> bytes_of(const PackedMatrix& packed) {
  std::vector<std::byte> bytes(packed.bytes());
  std::memcpy(bytes.data(), packed.codes.data(), packed.codes.bytes());
  std::memcpy(bytes.data() + packed.codes.bytes(), packed.scales.data(), packed.scales.bytes());
  return bytes;
}

TEST(MetalWeights, DoNotDependOnTheNumberOfWorkers) {
  RandomWeights random(3);
  const auto device = open_twin_device();
  const std::vector<std::vector<Weight>> all = {
      {random.affine(133, 384, 4, 64)},
      {random.affine(70, 4608, 8, 32, Format::kF32)},  // more groups than are read at once
      {random.plain(Format::kBf16, 33, 300, 1)},
      {random.block_float(Format::kNvfp4, 129, 2080)},
      {random.affine(96, 256, 5, 64), random.affine(96, 256, 5, 64)}};
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < 33; id += 2) ids.push_back(32 - id);
  for (const std::vector<Weight>& weights : all) {
    ThreadPool one(1);
    const auto expected = bytes_of(pack(device, one, weights).value());
    const auto rows = bytes_of(pack_rows(device, one, weights[0], ids, 3).value());
    for (const int workers : {2, 3, 7}) {
      ThreadPool pool(workers, 0);
      EXPECT_EQ(bytes_of(pack(device, pool, weights).value()), expected) << workers;
      EXPECT_EQ(bytes_of(pack_rows(device, pool, weights[0], ids, 3).value()), rows) << workers;
    }
  }
}

}  // namespace
}  // namespace ft::metal::weights_test
