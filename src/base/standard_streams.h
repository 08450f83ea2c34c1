// File descriptors 0 to 2 of a program that was started without them: the next file or socket that it opens
// would be its standard input, output or error. First thing in main().
#pragma once

namespace ft {

/// Opens /dev/null in each place that is closed. False if that failed.
bool open_standard_streams();

}  // namespace ft
