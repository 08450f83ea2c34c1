#include "server/framing.h"

#include <gtest/gtest.h>

namespace ft::server::framing_test {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

int fault(Fields fields, unsigned version = 11, bool with_host = true) {
  HttpRequest http_request;
  http_request.headers = std::move(fields);
  if (with_host) http_request.headers.emplace_back("Host", "localhost");
  const std::optional<FramingFault> found = framing_fault(http_request, version);
  EXPECT_FALSE(found && found->sentence.empty());
  return found ? found->status : 0;
}

TEST(Framing, ChunkedAloneIsTheOnlyTransferCoding) {
  EXPECT_EQ(fault({}), 0);
  EXPECT_EQ(fault({{"Transfer-Encoding", "chunked"}}), 0);
  EXPECT_EQ(fault({{"transfer-encoding", " \tCHUNKED "}}), 0);
  for (const char* unknown :
       {"gzip, chunked", "chunked, chunked", "identity,chunked", ", chunked", "x,\tchunked"}) {
    EXPECT_EQ(fault({{"Transfer-Encoding", unknown}}), 501) << unknown;
  }
  for (const char* endless : {"chunked, identity", "gzip", "identity", "", "chunked,", "chunked;q=1",
                              "\"chunked\"", "xchunked", "chunked\x0B"}) {
    EXPECT_EQ(fault({{"Transfer-Encoding", endless}}), 400) << endless;
  }
  EXPECT_EQ(fault({{"Transfer-Encoding", "gzip"}, {"Transfer-Encoding", "chunked"}}), 501);
  EXPECT_EQ(fault({{"Transfer-Encoding", "chunked"}, {"Transfer-Encoding", "identity"}}), 400);
}

TEST(Framing, ABodyHasOneLength) {
  EXPECT_EQ(fault({{"Content-Length", "5"}}), 0);
  EXPECT_EQ(fault({{"Content-Length", "5"}, {"Content-Length", "5"}}), 400);
  EXPECT_EQ(fault({{"Content-Length", "5, 5"}}), 400);
  EXPECT_EQ(fault({{"Content-Length", "5,6"}}), 400);
  EXPECT_EQ(fault({{"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}}), 400);
  EXPECT_EQ(fault({{"Transfer-Encoding", "identity"}, {"Content-Length", "5"}}), 400);
  EXPECT_EQ(fault({{"Transfer-Encoding", "chunked"}}, 10), 400) << "HTTP/1.0 knows no chunks";
}

TEST(Framing, HostIsGivenOnce) {
  EXPECT_EQ(fault({}, 11, false), 400);
  EXPECT_EQ(fault({}, 10, false), 0);
  EXPECT_EQ(fault({{"host", "localhost"}}), 400) << "twice";
  EXPECT_EQ(fault({{"host", "localhost"}}, 10), 400);
  EXPECT_EQ(fault({{"Origin", "null"}, {"Origin", "http://localhost"}}), 400);
}

}  // namespace
}  // namespace ft::server::framing_test
