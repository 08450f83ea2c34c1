#include "models/draft_vocabulary.h"

#include <cstring>
#include <gtest/gtest.h>
#include <string>

#include "format/model_fixture.h"

namespace ft::draft_vocabulary_test {
namespace {

using format::Piece;

std::string wholes(const std::vector<std::int64_t>& values) {
  std::string bytes(values.size() * sizeof(values[0]), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// Labels of a drafter of 3 of 6 tokens, from a file of these tensors.
Result<std::vector<std::int32_t>> labels(const std::vector<Piece>& pieces, int draft_vocabulary = 3) {
  const format::TemporaryFolder folder;
  folder.write("model.safetensors", format::safetensors_file(pieces));
  const Result<format::Checkpoint> checkpoint = format::Checkpoint::open(folder.path());
  if (!checkpoint.ok()) return checkpoint.error();
  static constexpr std::string_view kOwn[] = {"", "model."};
  static constexpr format::NamePrefixes kPrefixes[] = {{"", kOwn}};
  const format::WeightIndex index(*checkpoint, {"config.json", kPrefixes, {}, {}});
  return read_labels(index, draft_vocabulary, 6);
}

Piece d2t(const std::vector<std::int64_t>& offsets) {
  return {"d2t", "I64", "[" + std::to_string(offsets.size()) + "]", wholes(offsets)};
}
Piece t2d(const std::string& marks) {
  return {"t2d", "BOOL", "[" + std::to_string(marks.size()) + "]", marks};
}

TEST(Eagle3Vocabulary, OffsetsAreAddedToTheDraftToken) {
  const auto found = labels({d2t({1, 1, 3}), t2d(std::string("\0\1\1\0\0\1", 6))});
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(*found, (std::vector<std::int32_t>{1, 2, 5}));
}

TEST(Eagle3Vocabulary, AWholeVocabularyNeedsNoMap) {
  const auto found = labels({{"norm.weight", "F32", "[1]", format::floats({1})}}, 6);
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found->empty());
}

TEST(Eagle3Vocabulary, AMapThatCannotBeIsNamed) {
  const Piece other{"norm.weight", "F32", "[1]", format::floats({1})};
  const std::pair<std::vector<Piece>, const char*> cases[] = {
      {{other}, "no tensor d2t maps its 3 draft tokens to the 6 of the target"},
      {{d2t({0, 0})}, "expected 3 whole numbers"},
      {{d2t({0, 0, 4})}, "draft token 2 maps outside the target's vocabulary of 6"},
      {{d2t({-1, 0, 0})}, "draft token 0 maps outside"},
      {{d2t({2, 1, 2})}, "draft token 1 maps to 2, not beyond the one before it"},
      {{d2t({0, 0, 0}), t2d(std::string("\1\1\0\1\0\0", 6))}, "it does not list token 2"},
      {{d2t({0, 0, 0}), t2d(std::string("\1\1\1\1\0\0", 6))}, "it lists 4 tokens and d2t maps to 3"},
      {{d2t({0, 0, 0}), t2d(std::string("\1\1\1", 3))}, "expected 6 bytes"},
  };
  for (const auto& [pieces, says] : cases) {
    const auto found = labels(pieces);
    ASSERT_FALSE(found.ok()) << says;
    EXPECT_NE(found.error().message.find(says), std::string::npos) << found.error().message;
  }
}

}  // namespace
}  // namespace ft::draft_vocabulary_test
