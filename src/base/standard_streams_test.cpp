#include "base/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ft::standard_streams_test {
namespace {

bool same_file(const struct stat& left, const struct stat& right) {
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino && left.st_rdev == right.st_rdev;
}

/// In a child, whose exit status is the number of streams that are not /dev/null.
int streams_that_are_not_null() {
  for (int fd = 0; fd <= 2; ++fd) ::close(fd);
  if (!open_standard_streams()) return 4;
  struct stat null{};
  if (::stat("/dev/null", &null) != 0) return 5;
  int others = 0;
  for (int fd = 0; fd <= 2; ++fd) {
    struct stat stream{};
    if (::fstat(fd, &stream) != 0 || !same_file(stream, null)) ++others;
  }
  return others;
}

TEST(StandardStreams, ClosedOnesAreOpenedOnTheNullDevice) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(streams_that_are_not_null());
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(StandardStreams, OpenOnesStayAndNothingElseIsOpened) {
  struct stat before{}, after{};
  ASSERT_EQ(::fstat(2, &before), 0);
  const int next = ::dup(2);
  ::close(next);
  EXPECT_TRUE(open_standard_streams());
  ASSERT_EQ(::fstat(2, &after), 0);
  EXPECT_TRUE(same_file(before, after));
  const int again = ::dup(2);
  ::close(again);
  EXPECT_EQ(next, again) << "no descriptor is left open";
}

}  // namespace
}  // namespace ft::standard_streams_test
