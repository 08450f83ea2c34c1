// Compiled for macOS on Linux (tools/check --only mac); it has not run on a Mac yet.
#include "base/peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/event.h>
#include <sys/socket.h>
#include <unistd.h>

namespace ft {

// A reset closes the socket for writing too, which poll() cannot distinguish from a closed sending side.
bool has_left(int socket) {
  const int queue = ::kqueue();
  if (queue < 0) return false;
  struct kevent wanted{}, found{};
  EV_SET(&wanted, socket, EVFILT_WRITE, EV_ADD | EV_ONESHOT, 0, 0, nullptr);
  const timespec now{};
  const int events = ::kevent(queue, &wanted, 1, &found, 1, &now);
  ::close(queue);
  return events > 0 && (found.flags & (EV_EOF | EV_ERROR)) != 0;
}

void keep_asking(int socket) {
  constexpr int kOn = 1, kPauseS = 30, kTries = 4;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPALIVE, &kPauseS, sizeof kPauseS);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kPauseS, sizeof kPauseS);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kTries, sizeof kTries);
}

}  // namespace ft
