// The program behind main(): reads the command line, the environment and the settings file, runs one
// subcommand and turns what happened into words and an exit status: 0 good, 1 the work failed (or a
// comparison found a difference), 2 wrong usage. Owner: main. Thread: the main thread. Errors: none get out;
// each becomes one sentence on stderr and, with --json, an object {"error": {code, message}} on stdout.
#pragma once

namespace ft::cli {

int run_cli(int argc, const char* const* argv);

}  // namespace ft::cli
