#include "server/incoming.h"

#include <gtest/gtest.h>

namespace ft::server {
namespace {

TEST(Incoming, AQuerysValuesAreFoundByNameAndDecoded) {
  Incoming incoming;
  incoming.query = "beta=true&limit=2&after_id=a%2Fb%20c&flag&limit=3&x=%zz%4";
  EXPECT_EQ(incoming.query_value("limit"), "2");
  EXPECT_EQ(incoming.query_value("after_id"), "a/b c");
  EXPECT_EQ(incoming.query_value("flag"), "");
  EXPECT_EQ(incoming.query_value("x"), "%zz%4");
  EXPECT_EQ(incoming.query_value("imit"), "");
  incoming.query.clear();
  EXPECT_EQ(incoming.query_value(""), "");
}

}  // namespace
}  // namespace ft::server
