#include "cli/library/catalogue.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "hub/repository.h"
#include "models/family.h"
#include "models/synthetic/shapes.h"

namespace ft::cli::catalogue_test {
namespace {

TEST(Catalogue, EveryRowIsWholeAndItsFiguresAgree) {
  std::set<std::string> repositories;
  ASSERT_FALSE(catalogue().empty());
  for (const CatalogueEntry& entry : catalogue()) {
    SCOPED_TRACE(entry.repository);
    EXPECT_TRUE(repositories.insert(entry.repository).second) << "twice";
    EXPECT_TRUE(hub::looks_like_repository(entry.repository));
    EXPECT_FALSE(entry.name.empty());
    EXPECT_FALSE(entry.family.empty());
    EXPECT_EQ(find_in_catalogue(entry.name), &entry) << "its name chooses it";
    EXPECT_EQ(entry.drafter == "includes MTP head", entry.drafted > 1.2) << entry.drafter;
    EXPECT_TRUE(entry.drafter_repository.empty() || hub::looks_like_repository(entry.drafter_repository));
    EXPECT_GT(entry.token_bytes, 0);
    EXPECT_LE(entry.token_bytes, entry.bytes > 0 ? entry.bytes : entry.memory_8k);
    EXPECT_GT(entry.memory_8k, entry.bytes);
    EXPECT_TRUE(entry.memory_64k == 0 || entry.memory_64k > entry.memory_8k);
    EXPECT_GE(entry.drafted, 1);
    EXPECT_LT(entry.drafted, 4);
  }
}

TEST(Catalogue, FamiliesAndShapesAreThoseOfThisProgram) {
  for (const CatalogueEntry& entry : catalogue()) {
    SCOPED_TRACE(entry.repository);
    EXPECT_TRUE(
        std::ranges::any_of(families(), [&](const Family* family) { return family->name == entry.family; }));
    EXPECT_TRUE(find_shape(entry.shape).ok()) << entry.shape;
  }
}

TEST(Catalogue, ANameIsFoundInAnyCase) {
  ASSERT_NE(find_in_catalogue("qwen3.5-4b"), nullptr);
  EXPECT_EQ(find_in_catalogue("QWEN3.5-4B"), &catalogue().front()) << "the usual choice";
  EXPECT_EQ(find_in_catalogue("qwen3.5"), nullptr);
  EXPECT_EQ(find_in_catalogue(""), nullptr);
  EXPECT_EQ(repository_of("qwen3.5-4b"), catalogue().front().repository);
  EXPECT_EQ(repository_of("org/name:Q8_0"), "org/name:Q8_0");
}

}  // namespace
}  // namespace ft::cli::catalogue_test
