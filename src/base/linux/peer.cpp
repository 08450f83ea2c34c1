#include "base/peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace ft {

bool has_left(int socket) {
  pollfd poll{socket, 0, 0};
  return ::poll(&poll, 1, 0) > 0 && (poll.revents & (POLLHUP | POLLERR)) != 0;
}

void keep_asking(int socket) {
  constexpr int kOn = 1, kPauseS = 30, kTries = 4;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kPauseS, sizeof kPauseS);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kPauseS, sizeof kPauseS);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kTries, sizeof kTries);
}

}  // namespace ft
