#include "base/system.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"

namespace ft::system_test {
namespace {

#ifdef __linux__
TEST(System, AThreadYieldsToTheOthersOfItsProcessWhateverTheirPriority) {
  const auto priority = [] { return ::getpriority(PRIO_PROCESS, 0); };
  std::thread([&] {
    for (int i = 0; i < 6; ++i) {
      const int before = priority();
      yield_to_others();
      EXPECT_EQ(priority(), std::min(before + 5, 19));
    }
  }).join();
}
#endif

TEST(System, NoChildInheritsAPipe) {
  int ends[2] = {-1, -1};
  ASSERT_TRUE(open_pipe(ends));
  for (const int end : ends) EXPECT_NE(::fcntl(end, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::write(ends[1], "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  ::close(ends[0]), ::close(ends[1]);
}

TEST(System, ReservesRoomInAFileAndRefusesWhatNoDiskHas) {
  char name[] = "/tmp/foretoken_reserve_XXXXXX";
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::unlink(name);
  EXPECT_EQ(reserve_space(file, 0), 0);
  const int small = reserve_space(file, 1 << 20);
  EXPECT_TRUE(small == 0 || small == EOPNOTSUPP) << small;
  EXPECT_NE(reserve_space(file, INT64_MAX / 2), 0);
  EXPECT_NE(reserve_space(-1, 4096), 0);
  ::close(file);
}

TEST(System, PagesThatAreGivenBackReadAsZeros) {
  const auto size = static_cast<std::size_t>(4 * ::sysconf(_SC_PAGESIZE));
  auto* const pages = static_cast<std::byte*>(
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(pages), MAP_FAILED);
  pages[0] = pages[size - 1] = std::byte{7};
  return_pages(pages, size);
  EXPECT_EQ(pages[0], std::byte{0});
  EXPECT_EQ(pages[size - 1], std::byte{0});
  pages[5] = std::byte{1};
  ::munmap(pages, size);
}

TEST(System, AdviceAboutAFileChangesNoByte) {
  char name[] = "/tmp/foretoken_advice_XXXXXX";
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::unlink(name);
  const std::string text(3 * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), 'x');
  ASSERT_EQ(::write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  begin_writeback(file, 1, 100);
  void* const mapped = ::mmap(nullptr, text.size(), PROT_READ, MAP_SHARED, file, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  read_ahead(static_cast<const std::byte*>(mapped) + 5, text.size() - 5);
  EXPECT_EQ(std::string_view(static_cast<const char*>(mapped), text.size()), text);
  ::munmap(mapped, text.size());
  ::close(file);
}

TEST(System, AThreadStaysOnItsCoreOnlyAsLongAsItWasAskedTo) {
  const std::vector<int> before = usable_cores();
  {
    const StayOnCore stay(before.back());
#if defined(__linux__)
    EXPECT_EQ(usable_cores(), std::vector<int>{before.back()});
#endif
  }
  EXPECT_EQ(usable_cores(), before);
  {
    const StayOnCore nowhere(-1);
  }
  EXPECT_EQ(usable_cores(), before);
}

TEST(System, AHangUpIsSeenBeforeTheLastBytesAreRead) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ASSERT_EQ(::write(ends[1], "last", 4), 4);
  EXPECT_FALSE(has_hung_up(ends[0]));
  ::close(ends[1]);
  EXPECT_TRUE(has_hung_up(ends[0]));
  ::close(ends[0]);
}

TEST(System, AProcessIsNamedByItsNumberAndStart) {
  EXPECT_NE(process_start(::getpid()), 0);
  EXPECT_EQ(process_start(::getpid()), process_start(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  EXPECT_EQ(process_start(child), 0) << "it has ended and waits for its parent";
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(process_start(child), 0);
}

#ifdef __linux__
TEST(System, AThreadKnowsThatItWaitedForBytesOfAFile) {
  char name[] = "foretoken_waits_XXXXXX";  // on a disk: /tmp may be in memory
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::unlink(name);
  const std::string bytes(1 << 20, 'x');
  ASSERT_EQ(::write(file, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(::fsync(file), 0);
  ASSERT_EQ(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
  auto* const mapped = static_cast<char*>(::mmap(nullptr, bytes.size(), PROT_READ, MAP_SHARED, file, 0));
  ::close(file);
  ASSERT_NE(static_cast<void*>(mapped), MAP_FAILED);
  unsigned char in_memory = 0;
  ASSERT_EQ(::mincore(mapped, 1, &in_memory), 0);
  const std::int64_t before = waits_for_files();
  EXPECT_EQ(*static_cast<volatile char*>(mapped), 'x');
  const std::int64_t after = waits_for_files();
  ::munmap(mapped, bytes.size());
  if ((in_memory & 1) != 0) GTEST_SKIP() << "the file system keeps the file in memory";
  EXPECT_GT(after, before);
}

TEST(System, AThreadKnowsThatItWaitedForACore) {
  if (::access("/proc/thread-self/schedstat", R_OK) != 0) GTEST_SKIP() << "the system does not say";
  const int core = usable_cores().front();
  constexpr std::int64_t kDeadlineNs = 20'000'000'000;
  std::atomic<bool> waited{false};
  const auto burn = [&] {
    pin_to_core(core);
    const std::int64_t before = waited_for_cores_ns(), begin = steady_ns();
    while (!waited && steady_ns() - begin < kDeadlineNs)
      if (waited_for_cores_ns() > before + 1'000'000) waited = true;
  };
  std::thread one(burn), other(burn);
  one.join(), other.join();
  EXPECT_TRUE(waited);
}
#endif

TEST(System, TheProgramKnowsItsFile) {
  EXPECT_TRUE(std::filesystem::path(program_path()).is_absolute());
  struct stat named{}, opened{};
  ASSERT_EQ(::stat(program_path().c_str(), &named), 0);
  const int file = ::open(program_file().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::fstat(file, &opened), 0);  // of the opened file: in an emulator stat() would name another
  ::close(file);
  EXPECT_EQ(named.st_ino, opened.st_ino);
  EXPECT_GT(modified_ns(named), 1'000'000'000'000'000'000);
}

}  // namespace
}  // namespace ft::system_test
