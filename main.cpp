// foretoken: parse, dispatch, exit status. Everything else is below.
#include "base/standard_streams.h"
#include "cli/cli.h"

int main(int argc, char** argv) {
  if (!ft::open_standard_streams()) return 1;  // and nowhere to say so
  return ft::cli::run_cli(argc, argv);
}
