// The other side of a connected socket: whether it is gone. Any thread.
#pragma once

namespace ft {

/// Whether the other side can no longer receive anything: the connection was reset or broke off, or a local
/// socket was closed. A TCP peer that closed its connection answers the next bytes with a reset, so the close
/// shows only after something was sent. Until then the peer looks like one that closed its sending side
/// (has_hung_up in base/system.h).
bool has_left(int socket);
/// Turns on TCP keep-alive: the system probes an idle connection every half minute.
void keep_asking(int socket);

}  // namespace ft
