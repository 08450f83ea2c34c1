// foretoken: parse, dispatch, exit status. Everything else is below.
#include "cli/cli.h"

int main(int argc, char** argv) { return ft::cli::run_cli(argc, argv); }
