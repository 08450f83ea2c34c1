#include "base/log.h"

#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>

namespace ft::log_test {
namespace {

class Log : public ::testing::Test {
 protected:
  void TearDown() override { set_log_level(LogLevel::kInfo); }
};

TEST_F(Log, WritesTheLineWithItsLevelToStderr) {
  ::testing::internal::CaptureStderr();
  log_warn("shard 3 is {odd} %s");
  const std::string written = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(written.find("warning shard 3 is {odd} %s\n"), std::string::npos) << written;
}

TEST_F(Log, DropsLinesBelowTheLevel) {
  ::testing::internal::CaptureStderr();
  set_log_level(LogLevel::kError);
  log_debug("a");
  log_info("b");
  log_warn("c");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  log_error("d");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("error d\n"), std::string::npos);
}

TEST_F(Log, RemembersEveryLevel) {
  for (LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarn, LogLevel::kError, LogLevel::kOff}) {
    set_log_level(level);
    EXPECT_EQ(log_level(), level);
  }
}

/// The last test of this file: its changes to the log stay.
TEST_F(Log, AnEndThatNobodyReadsKeepsNobodyWaitingAndDropsAreCounted) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  log_in_background(ends[1]);
  constexpr int kLines = 3 * static_cast<int>(kWaitingLogLines);
  const std::string filler(100, 'x');
  for (int i = 0; i < kLines; ++i) log_plain(filler);  // a full pipe would hold a writer for ever
  EXPECT_FALSE(flush_log(1)) << "the pipe has no reader";
  std::string written;
  std::thread reader([&] {
    char bytes[4096];
    for (ssize_t got = 0; (got = ::read(ends[0], bytes, sizeof bytes)) > 0;) written.append(bytes, got);
  });
  EXPECT_TRUE(flush_log(600'000));
  log_in_background(2);  // nothing is logged to the pipe from here on
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  int lines = 0, dropped = 0;
  std::istringstream text(written);
  for (std::string line; std::getline(text, line);) {
    if (line == filler) ++lines;
    if (line.find("were dropped") != std::string::npos) dropped += std::stoi(line);
  }
  EXPECT_GE(lines, static_cast<int>(kWaitingLogLines) - 8);
  EXPECT_GT(dropped, 0);
  EXPECT_GE(lines + dropped, kLines);
  EXPECT_LE(lines + dropped, kLines + 2) << "a flush may be dropped too";
}

}  // namespace
}  // namespace ft::log_test
