#include "server/exposition.h"

#include <array>
#include <gtest/gtest.h>

namespace ft::exposition_test {
namespace {

TEST(Exposition, SaysHelpAndTypeOnceAndEscapesLabels) {
  Exposition text;
  text.counter("x_total", "How many\nx.");
  text.sample(3, {{"why", "a \"quoted\" \\ word"}, {"position", "0"}});
  text.sample(4.5);
  EXPECT_EQ(text.text(),
            "# HELP x_total How many\\nx.\n# TYPE x_total counter\n"
            "x_total{why=\"a \\\"quoted\\\" \\\\ word\",position=\"0\"} 3\nx_total 4.5\n");
}

TEST(Exposition, AddsUpAHistogramsBuckets) {
  Exposition text;
  constexpr std::array<double, 2> kBounds{0.1, 1};
  constexpr std::array<std::int64_t, 3> kCounts{2, 0, 5};
  text.histogram("t_seconds", "Times.", kBounds, kCounts, 7.25);
  EXPECT_EQ(text.text(),
            "# HELP t_seconds Times.\n# TYPE t_seconds histogram\n"
            "t_seconds_bucket{le=\"0.1\"} 2\nt_seconds_bucket{le=\"1\"} 2\nt_seconds_bucket{le=\"+Inf\"} 7\n"
            "t_seconds_sum 7.25\nt_seconds_count 7\n");
}

}  // namespace
}  // namespace ft::exposition_test
