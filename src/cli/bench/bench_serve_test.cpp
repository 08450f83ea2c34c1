#include "cli/bench/bench_serve.h"

#include <gtest/gtest.h>

namespace ft::cli::bench_serve_test {
namespace {

TEST(BenchServe, SaysWhereNobodyAnswers) {
  ServeLoad load;
  load.url = "http://127.0.0.1:1";
  const Result<LoadResult> result = run_load(load);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("127.0.0.1"), std::string::npos) << result.error().message;
}

}  // namespace
}  // namespace ft::cli::bench_serve_test
