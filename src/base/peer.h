// The other side of a connected socket: whether it is gone. Any thread.
#pragma once

namespace ft {

/// Whether nothing that is sent reaches the other side any more: the connection was reset, or broke off, or a
/// local socket was closed. A TCP peer that closed its connection answers the next bytes with a reset, so it
/// shows only after something was sent to it. Until then it looks like one that closed its sending side
/// (has_hung_up in base/system.h).
bool has_left(int socket);
/// Turns on TCP keep-alive: the system probes an idle connection every half minute.
void keep_asking(int socket);

}  // namespace ft
