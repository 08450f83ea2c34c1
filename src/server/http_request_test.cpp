#include "server/http_request.h"

#include <gtest/gtest.h>

namespace ft::server::http_request_test {
namespace {

TEST(HttpRequest, AQuerysValuesAreFoundByNameAndDecoded) {
  HttpRequest http_request;
  http_request.query = "beta=true&limit=2&after_id=a%2Fb%20c&flag&limit=3&x=%zz%4";
  EXPECT_EQ(http_request.query_value("limit"), "2");
  EXPECT_EQ(http_request.query_value("after_id"), "a/b c");
  EXPECT_EQ(http_request.query_value("flag"), "");
  EXPECT_EQ(http_request.query_value("x"), "%zz%4");
  EXPECT_EQ(http_request.query_value("imit"), "");
  http_request.query.clear();
  EXPECT_EQ(http_request.query_value(""), "");
}

}  // namespace
}  // namespace ft::server::http_request_test
