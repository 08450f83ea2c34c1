// The program after main(): reads command line, environment and settings file, runs one subcommand, and turns
// the result into text and an exit status: 0 success, 1 the work failed or a comparison found a difference, 2
// wrong usage. Each error becomes one sentence on stderr and, with --json, an object {"error": {code,
// message}} on stdout.
#pragma once

namespace ft::cli {

/// From now on, running out of memory where no exception can propagate (nlohmann's destructors allocate, a
/// thread has no caller) prints a message on stderr and exits with status 1, as for any other error. run_cli
/// calls it.
void exit_where_memory_ends();

int run_cli(int argc, const char* const* argv);

}  // namespace ft::cli
