// `foretoken bench serve`: measures a running server under load, as its clients see it.
#include <fmt/format.h>

#include "cli/args/option_flags.h"
#include "cli/bench/bench_serve.h"
#include "cli/commands/subcommands.h"

namespace ft::cli {
namespace {

struct BenchServeOptions {
  OutputOptions output;
  ServeLoad load;
  std::optional<float> rate, temperature;
};

Result<int> run_bench_serve(const BenchServeOptions& options, Terminal& terminal) {
  ServeLoad load = options.load;
  load.rate = options.rate.value_or(0), load.temperature = options.temperature.value_or(0);
  FT_ASSIGN(const LoadResult result, run_load(load));
  terminal.out(options.output.json ? load_json(load, result) + "\n" : load_table(load, result));
  return 0;
}

}  // namespace

Command bench_serve_command() {
  auto options = std::make_shared<BenchServeOptions>();
  Command command;
  command.name = "bench serve";
  command.summary = "Load a running server: first token, gaps, tokens/s, plain and speculative";
  command.examples =
      "  foretoken bench serve\n"
      "  foretoken bench serve --streams 1 --requests 8 --json\n"
      "  foretoken bench serve --rate 2 --streams 64 --temperature 0.7\n";
  FlagSet& flags = command.flags;
  ServeLoad& load = options->load;
  flags.group("Load");
  flags.add("url", "URL", reads_text(load.url), "Address of the server (default http://127.0.0.1:8080)");
  flags.add("api-key", "KEY", reads_text(load.api_key), "API key of the server");
  flags.add("streams", "N", reads_int(load.streams, 1, 1024),
            "Clients that each send one request after another (default 8); with --rate: max open requests");
  flags.add("requests", "N", reads_int(load.requests, 1, 1 << 20),
            "Requests per side of a pair (default 32)");
  flags.add("rate", "X", reads_number(options->rate, {0, 10'000}),
            "Requests per second at random times; 0 (default): each client waits for its answer");
  flags.add("max-tokens", "N", reads_int(load.max_tokens, 1, 1 << 20),
            "Max tokens of an answer (default 128)");
  flags.add("pairs", "N", reads_int(load.pairs, 1, 1000), "Pairs of plain and speculative (default 3)");
  flags.add("temperature", "X", reads_number(options->temperature, {0, 2}),
            "Sampling temperature (default 0: greedy)");
  flags.add("seed", "N", reads_seed(load.seed), "Random seed of sampling and arrival times (default 1)");
  return bind_options(std::move(command), std::move(options), run_bench_serve);
}

}  // namespace ft::cli
