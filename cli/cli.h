// The program behind main(): reads the command line, the environment and the settings file, runs one
// subcommand and turns what happened into words and an exit status: 0 good, 1 the work failed (or a
// comparison found a difference), 2 wrong usage. Owner: main. Thread: the main thread. Errors: none get out;
// each becomes one sentence on stderr and, with --json, an object {"error": {code, message}} on stdout.
#pragma once

namespace ft::cli {

/// From now on a process whose memory ends where no exception can be handed on (nlohmann's destructors
/// allocate, a thread has no caller) says so on stderr and exits with status 1, as for any other error.
/// run_cli does it.
void exit_where_memory_ends();

int run_cli(int argc, const char* const* argv);

}  // namespace ft::cli
