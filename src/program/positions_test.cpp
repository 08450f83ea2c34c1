#include "program/positions.h"

#include <gtest/gtest.h>

namespace ft::positions_test {
namespace {

TEST(PositionMap, GivesTextItsIndexOnEveryAxis) {
  const PositionMap map;
  EXPECT_TRUE(map.flat());
  EXPECT_EQ(map.at(7), (Coordinates{7, 7, 7}));
  EXPECT_EQ(map.image_row(7), -1);
}

// The figures of the golden `two_pictures`: grids of 4 x 6 and 2 x 10 at 4 and 30.
TEST(PositionMap, CountsTheGridOfAnImageAndGoesOnAfterItsLargerSide) {
  PositionMap map;
  map.add({4, 4, 6});
  map.add({30, 2, 10});
  EXPECT_EQ(map.at(3), (Coordinates{3, 3, 3}));
  EXPECT_EQ(map.at(4), (Coordinates{4, 4, 4}));
  EXPECT_EQ(map.at(11), (Coordinates{4, 5, 5}));
  EXPECT_EQ(map.at(27), (Coordinates{4, 7, 9}));
  EXPECT_EQ(map.at(28), (Coordinates{10, 10, 10}));
  EXPECT_EQ(map.at(30), (Coordinates{12, 12, 12}));
  EXPECT_EQ(map.at(49), (Coordinates{12, 13, 21}));
  EXPECT_EQ(map.at(50), (Coordinates{22, 22, 22}));
  EXPECT_EQ(map.at(66), (Coordinates{38, 38, 38}));
  EXPECT_EQ(map.image_row(4), 0);
  EXPECT_EQ(map.image_row(30), 24);
  EXPECT_EQ(map.image_row(49), 43);
  EXPECT_EQ(map.image_row(50), -1);
  EXPECT_EQ(map.image_row(29), -1);
}

}  // namespace
}  // namespace ft::positions_test
