#include "base/peer.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/system.h"

namespace ft::peer_test {
namespace {

TEST(Peer, AnEndThatOnlySendsNoMoreHasNotLeft) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_FALSE(has_left(ends[0]));
  ::shutdown(ends[1], SHUT_WR);
  EXPECT_TRUE(has_hung_up(ends[0]));
  EXPECT_FALSE(has_left(ends[0]));
  ::close(ends[1]);
  EXPECT_TRUE(has_left(ends[0]));
  ::close(ends[0]);
}

/// A connection of this machine with itself.
void connect_pair(int& server, int& client) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET, address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  client = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
  server = ::accept(listener, nullptr, nullptr);
  ::close(listener);
}

TEST(Peer, AClosedConnectionShowsOnceSomethingWasSent) {
  for (const bool closed : {false, true}) {
    int server = -1, client = -1;
    connect_pair(server, client);
    if (closed) ::close(client);
    if (!closed) ::shutdown(client, SHUT_WR);
    char byte = 0;
    EXPECT_EQ(::recv(server, &byte, 1, 0), 0) << "both look the same";
    EXPECT_FALSE(has_left(server));
    keep_asking(server);
    EXPECT_EQ(::send(server, "H", 1, 0), 1);
    EXPECT_EQ(has_left(server), closed) << "on this machine the reset comes at once";
    ::close(server);
    if (!closed) ::close(client);
  }
}

}  // namespace
}  // namespace ft::peer_test
