#include "cli/terminal/transfer_line.h"

#include <gtest/gtest.h>

namespace ft::cli::transfer_line_test {
namespace {

const TransferFigures kHalf{"Qwen3.6-27B-4bit", 8'410'000'000, 16'200'000'000, 231e6, 6};

TEST(TransferLine, ShowsWhatTheWidthHolds) {
  EXPECT_EQ(transfer_line(kHalf, 100),
            "Qwen3.6-27B-4bit  [##########----------]  51%  8.41 GB / 16.2 GB  231 MB/s  34 s left");
  EXPECT_EQ(transfer_line(kHalf, 80),
            "Qwen3.6-27B-4bit  [#####-----]  51%  8.41 GB / 16.2 GB  231 MB/s  34 s left");
  EXPECT_EQ(transfer_line(kHalf, 60), " 51%  8.41 GB / 16.2 GB  231 MB/s  34 s left");
  EXPECT_EQ(transfer_line(kHalf, 40), " 51%  231 MB/s  34 s left");
}

TEST(TransferLine, NeverReachesTheLastColumn) {
  TransferFigures long_name = kHalf;
  long_name.name = std::string(200, 'n');
  for (int columns = 9; columns < 200; ++columns)
    EXPECT_LT(transfer_line(long_name, columns).size(), static_cast<std::size_t>(columns)) << columns;
}

TEST(TransferLine, SaysNothingOfTimeWithoutARate) {
  TransferFigures slow = kHalf;
  slow.bytes_per_s = 0;
  EXPECT_EQ(transfer_line(slow, 60).find("left"), std::string::npos);
  EXPECT_EQ(transfer_line({"empty", 0, 0, 0, 0}, 60).substr(0, 4), "100%");
}

TEST(Duration, HasAUnitThatFits) {
  EXPECT_EQ(duration_text(33.2), "34 s");
  EXPECT_EQ(duration_text(300), "5 min");
  EXPECT_EQ(duration_text(12'000), "3 h 20 min");
}

}  // namespace
}  // namespace ft::cli::transfer_line_test
