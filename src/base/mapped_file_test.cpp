#include "base/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ft::mapped_file_test {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "ft_mapped_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override {
    set_file_fault_hook_for_tests(nullptr);
    fs::remove_all(dir_);
  }
  std::string write(const std::string& name, const std::string& content) {
    const fs::path path = dir_ / name;
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  static std::string text(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
  }

  fs::path dir_;
};

TEST_F(MappedFileTest, GivesTheBytesOfTheFile) {
  auto file = MappedFile::open(write("a", "seven b"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(text(*file), "seven b");
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
  auto file = MappedFile::open(write("a", ""));
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
  file->advise_sequential();
  file->drop_pages(0, 10);
}

TEST_F(MappedFileTest, AMoveKeepsTheAddressAndASelfContainedOwner) {
  auto file = MappedFile::open(write("a", "abc"));
  ASSERT_TRUE(file.ok());
  const std::byte* before = file->bytes().data();
  MappedFile moved = std::move(*file);
  EXPECT_EQ(moved.bytes().data(), before);
  EXPECT_TRUE(file->bytes().empty());
  MappedFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.bytes().data(), before);
}

TEST_F(MappedFileTest, DroppedPagesReadTheSameAgain) {
  const std::string content(3 * 65536 + 17, 'x');
  auto file = MappedFile::open(write("a", content));
  ASSERT_TRUE(file.ok());
  file->advise_sequential();
  EXPECT_EQ(text(*file), content);
  file->drop_pages(1, content.size());
  file->drop_pages(content.size() - 1, 100);
  file->drop_pages(content.size() + 5, 1);
  EXPECT_EQ(text(*file), content);
}

TEST_F(MappedFileTest, FollowsASymbolicLink) {
  write("blob", "abc");
  fs::create_symlink("blob", dir_ / "link");
  auto file = MappedFile::open((dir_ / "link").string());
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(text(*file), "abc");
}

TEST_F(MappedFileTest, AnAbsentFileIsNotFoundAndNamed) {
  auto file = MappedFile::open((dir_ / "gone").string());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kNotFound);
  EXPECT_NE(file.error().message.find((dir_ / "gone").string()), std::string::npos);
  fs::create_symlink("nowhere", dir_ / "dangling");
  auto dangling = MappedFile::open((dir_ / "dangling").string());
  ASSERT_FALSE(dangling.ok());
  EXPECT_EQ(dangling.error().code, Code::kNotFound);
}

TEST_F(MappedFileTest, ADirectoryIsRefused) {
  auto file = MappedFile::open(dir_.string());
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kInvalid);
  EXPECT_NE(file.error().message.find("a directory"), std::string::npos);
}

TEST_F(MappedFileTest, ANamedPipeIsRefusedWithoutWaitingForAWriter) {
  const std::string path = (dir_ / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  auto file = MappedFile::open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kInvalid);
}

FileStep failing_step;
int failing_errno;

TEST_F(MappedFileTest, EachFailingStepIsAnErrorThatNamesTheFileAndTheReason) {
  const std::string path = write("a", "abc");
  for (FileStep step : {FileStep::kOpen, FileStep::kStat, FileStep::kMap}) {
    for (int number : {EIO, EACCES, ENOMEM, EMFILE}) {
      failing_step = step;
      failing_errno = number;
      set_file_fault_hook_for_tests(
          [](FileStep asked, const char*) { return asked == failing_step ? failing_errno : 0; });
      auto file = MappedFile::open(path);
      ASSERT_FALSE(file.ok());
      EXPECT_NE(file.error().message.find(path), std::string::npos);
      EXPECT_NE(file.error().message.find(std::strerror(number)), std::string::npos);
      EXPECT_EQ(file.error().code, number == ENOMEM || number == EMFILE ? Code::kExhausted : Code::kIo);
    }
  }
}

}  // namespace
}  // namespace ft::mapped_file_test
