#include <gtest/gtest.h>

#include "models/model.h"
#include "tests/late_backend.h"
#include "verify/matrix.h"

namespace ft::late_matrix_test {
namespace {

std::vector<MatrixPrompt> prompts_below(int vocabulary) {
  std::vector<MatrixPrompt> prompts(2);
  for (int i = 0; i < 23; ++i) prompts[0].ids.push_back(i * i % vocabulary);
  for (int i = 0; i < 9; ++i) prompts[1].ids.push_back((7 * i + 3) % vocabulary);
  prompts[0].name = "squares", prompts[1].name = "sevens";
  return prompts;
}

class LateMatrix : public testing::TestWithParam<const char*> {};

// The steps of a round run only when a caller waits, and hidden rows and tokens that the host must not read
// yet are garbage: drafters, rounds and sampling as on a device.
TEST_P(LateMatrix, ADeviceThatRunsLaterGivesTheTokensOfPlainDecoding) {
  const Result<Model> model = load_model(std::string("tests/golden/") + GetParam());
  ASSERT_TRUE(model.ok()) << model.error().message;
  test::LateReport late;
  MatrixOptions options;
  options.backend.name = "cpu";
  options.tokens = 16, options.threads = {1};
  options.around = [&late](std::unique_ptr<Backend> backend) {
    return test::make_late_backend(std::move(backend), late);
  };
  const Result<MatrixReport> report = run_matrix(*model, prompts_below(model->facts.vocabulary), options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->complete);
  EXPECT_GT(report->compared, 1000);
  for (const CellResult& cell : report->cells) EXPECT_EQ(cell.differing, 0) << cell.cell.text();
  EXPECT_GT(late.most_waiting, 1);
  EXPECT_GT(late.collects, 100);
}

INSTANTIATE_TEST_SUITE_P(Models, LateMatrix, testing::Values("odd", "odd_experts"));

TEST(MatrixParts, TogetherAreTheWhole) {
  const Result<Model> model = load_model("tests/golden/odd");
  ASSERT_TRUE(model.ok()) << model.error().message;
  MatrixOptions options;
  options.tokens = 2, options.threads = {1};
  const auto cells = [&](int part, int parts) {
    options.part = part, options.parts = parts;
    return std::move(*run_matrix(*model, prompts_below(model->facts.vocabulary), options)).cells;
  };
  const std::vector<CellResult> whole = cells(1, 1);
  std::size_t found = 0;
  for (int part = 1; part <= 3; ++part) {
    const std::vector<CellResult> some = cells(part, 3);
    for (std::size_t i = 0; i < some.size(); ++i, ++found)
      EXPECT_EQ(some[i].cell.text(), whole[static_cast<std::size_t>(part) - 1 + 3 * i].cell.text());
  }
  EXPECT_EQ(found, whole.size());
}

}  // namespace
}  // namespace ft::late_matrix_test
