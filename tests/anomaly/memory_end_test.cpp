// Running out of memory where C++ cannot propagate an exception: in a destructor, in a thread of ours. The
// program must report it and exit as for any other error.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/cli.h"
#include "tests/anomaly/failing_memory.h"

namespace ft::test::memory_end_test {
namespace {

constexpr const char* kSaid = "foretoken: out of memory";

TEST(MemoryEnd, InADestructorIsASentenceAndStatusOne) {
  const auto destroy = [] {
    auto tree = std::make_unique<nlohmann::ordered_json>(nlohmann::ordered_json::parse("[[1],[2]]"));
    cli::exit_where_memory_ends();
    plan_failure({1, true});
    tree.reset();  // nlohmann's destructor allocates
  };
  EXPECT_EXIT(destroy(), testing::ExitedWithCode(1), kSaid);
}

TEST(MemoryEnd, InAThreadIsASentenceAndStatusOne) {
  const auto start = [] {
    cli::exit_where_memory_ends();
    std::thread([] { throw std::bad_alloc(); }).join();
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(1), kSaid);
}

TEST(MemoryEnd, OtherExceptionsStillAbort) {
  const auto fail = [] {
    cli::exit_where_memory_ends();
    std::thread([] { throw std::runtime_error("a mistake of ours"); }).join();
  };
  EXPECT_DEATH(fail(), "a mistake of ours");
}

}  // namespace
}  // namespace ft::test::memory_end_test
