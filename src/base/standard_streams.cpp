#include "base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace ft {

bool open_standard_streams() {
  for (;;) {  // open() takes the lowest number that is free
    int opened = ::open("/dev/null", O_RDWR);
    if (opened == STDOUT_FILENO) {
      // Readable only: printing to a closed standard output must still fail.
      ::close(opened);
      opened = ::open("/dev/null", O_RDONLY);
    }
    if (opened < 0) return false;
    if (opened <= STDERR_FILENO) continue;
    ::close(opened);
    return true;
  }
}

}  // namespace ft
