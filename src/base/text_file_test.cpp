#include "base/text_file.h"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace ft::text_file_test {
namespace {

class TextFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("foretoken_text_" + std::to_string(::getpid()));
    ::unlink(path_.c_str());
  }
  void TearDown() override { ::unlink(path_.c_str()); }
  std::string path_;
};

TEST_F(TextFile, ANamedPipeIsReadToItsEnd) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const std::jthread writer([this] {
    const int end = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);  // waits for the reader
    for (int i = 0; i < 3; ++i) (void)!::write(end, "line\n", 5);
    ::close(end);
  });
  const Result<std::string> text = read_text_file(path_, 100);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "line\nline\nline\n");
}

TEST_F(TextFile, ANamedPipeThatNobodyWritesToIsAnError) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const Result<std::string> text = read_text_file(path_, 100);
  ASSERT_FALSE(text.ok());
  EXPECT_NE(text.error().message.find(path_ + " is a pipe"), std::string::npos) << text.error().message;
}

TEST_F(TextFile, AFolderAndALargeFileAreErrors) {
  EXPECT_EQ(read_text_file("/", 100).error().code, Code::kInvalid);
  EXPECT_EQ(read_text_file("/dev/zero", 100).error().code, Code::kExhausted);
  EXPECT_EQ(read_text_file(path_, 100).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace ft::text_file_test
