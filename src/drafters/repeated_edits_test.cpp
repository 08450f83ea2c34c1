// An agent writes one file ten times with small changes, in separate requests: rounds with lookup in the
// request's own text only, and with recall of the earlier requests as well.
#include <array>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "drafters/ngram.h"
#include "drafters/recall.h"

namespace ft::repeated_edits_test {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Words and spaces of a source file of this project as tokens.
Tokens source_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  std::map<std::string, std::int32_t> ids;
  Tokens tokens;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty())
      tokens.push_back(ids.emplace(word, 100 + static_cast<std::int32_t>(ids.size())).first->second);
    word.clear();
  };
  for (const char letter : text.str()) {
    const bool part = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
    if (!part) end_word();
    word += letter;
    if (!part) end_word();
  }
  end_word();
  return tokens;
}

/// A word becomes another one, a line is added, one is removed.
void edit(Tokens& tokens, std::mt19937& random) {
  const auto somewhere = [&] { return static_cast<std::ptrdiff_t>(random() % (tokens.size() - 20)); };
  tokens[static_cast<std::size_t>(somewhere())] = static_cast<std::int32_t>(100 + random() % 200);
  Tokens line;
  for (int i = 0; i < 12; ++i) line.push_back(static_cast<std::int32_t>(100 + random() % 200));
  tokens.insert(tokens.begin() + somewhere(), line.begin(), line.end());
  const std::ptrdiff_t gone = somewhere();
  tokens.erase(tokens.begin() + gone, tokens.begin() + gone + 9);
}

class RepeatedEdits : public testing::Test {
 protected:
  /// Rounds of this answer to this prompt, where the drafter with the longer match drafts.
  int rounds(const Tokens& prompt, const Tokens& answer, bool across_requests) {
    NgramDrafter own(1);
    EXPECT_TRUE(own.open(0, 0).ok());
    EXPECT_TRUE(recall_.open(0, 0).ok());
    Tokens text = prompt;
    int count = 0;
    for (std::size_t done = 0; done < answer.size(); ++count) {
      std::array<std::int32_t, kMaxDraftTokens> drafts{};
      DraftSlot slot;
      slot.tokens = text, slot.owner = 1, slot.drafts = std::span(drafts).first(8);
      const int from_own = own.plan(slot);
      const int from_earlier = across_requests ? recall_.plan(slot) : 0;
      Drafter& source = from_earlier > 0 && recall_.context_class(0) >= own.context_class(0)
                            ? static_cast<Drafter&>(recall_)
                            : static_cast<Drafter&>(own);
      slot.depth = &source == &own ? from_own : from_earlier;
      DraftSlot* pointer = &slot;
      if (slot.depth > 0) {
        EXPECT_TRUE(source.propose({&pointer, 1}, drafts).ok());
      }
      std::size_t right = 0;
      while (right < static_cast<std::size_t>(slot.drafted) && done + right < answer.size() &&
             drafts[right] == answer[done + right])
        ++right;
      for (std::size_t i = 0; i <= right && done < answer.size(); ++i) text.push_back(answer[done++]);
    }
    recall_.learn(text, 1);
    return count;
  }
  RecallDrafter recall_{1, std::int64_t{8} << 20};
};

TEST_F(RepeatedEdits, TakeAtMostTwoThirdsOfTheRoundsWithRecall) {
  const Tokens original = source_file("src/drafters/mtp.cpp");
  ASSERT_GT(original.size(), 2000U);
  int today = 0, with_recall = 0;
  for (const bool across : {false, true}) {
    std::mt19937 random(5);
    Tokens version = original;
    for (int i = 0; i < 10; ++i) {
      const Tokens prompt = {1, 2, 3, 4 + i, 5, 6};  // names the file and what to change
      (across ? with_recall : today) += rounds(prompt, version, across);
      edit(version, random);
    }
    recall_ = RecallDrafter(1, std::int64_t{8} << 20);
  }
  EXPECT_LE(1.5 * with_recall, today) << with_recall << " rounds in place of " << today;
}

}  // namespace
}  // namespace ft::repeated_edits_test
