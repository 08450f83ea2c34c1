// foretoken: parse, dispatch, exit status. Everything else is below.
#include "base/standard_streams.h"
#include "cli/cli.h"

int main(int argc, char** argv) {
  if (!ft::open_standard_streams()) return 1;  // no stream to report the error
  return ft::cli::run_cli(argc, argv);
}
