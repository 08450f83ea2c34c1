#include "cli/library/catalogue.h"

#include <gtest/gtest.h>
#include <set>

#include "hub/repository.h"

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
    EXPECT_FALSE(entry.drafter.empty());
    EXPECT_GT(entry.token_bytes, 0);
    EXPECT_LE(entry.token_bytes, entry.bytes);
    EXPECT_GE(entry.memory_8k, entry.bytes);
    EXPECT_GT(entry.memory_64k, entry.memory_8k);
    EXPECT_GE(entry.drafted, 1);
    EXPECT_LT(entry.drafted, 4);
  }
}

}  // namespace
}  // namespace ft::cli::catalogue_test
