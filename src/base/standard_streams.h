// Opens file descriptors 0 to 2 if the program was started without them; otherwise its next file or socket
// would become standard input, output or error. Call it first in main().
#pragma once

namespace ft {

/// Opens /dev/null in each place that is closed. False if that failed.
bool open_standard_streams();

}  // namespace ft
