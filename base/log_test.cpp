#include "base/log.h"

#include <gtest/gtest.h>
#include <string>

namespace ft {
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

}  // namespace
}  // namespace ft
