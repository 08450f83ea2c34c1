// Load on a running server: streams of chat requests, closed loop (so many clients, each asking again when
// answered) or open (so many requests a second, whatever is answered), plain and speculative in turns.
// What a client feels: time to the first token, gaps between frames, tokens/s of a stream and of all.
// Owner: cli/bench_serve_command.cpp. Threads: one a client. Cost: that of the answers. Errors: those of the
// first request that failed, with the server's sentence.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct ServeLoad {
  std::string url = "http://127.0.0.1:8080", api_key;
  int streams = 8;    // clients of the closed loop, most open requests of the open one
  int requests = 32;  // of one side of one pair
  double rate = 0;    // requests a second; 0: closed loop
  int max_tokens = 128;
  int pairs = 3;
  double temperature = 0;
  std::uint64_t seed = 1;
};

/// One side: plain or speculative. Times in milliseconds.
struct LoadSide {
  std::vector<double> first_ms, gap_ms, stream_speed;  // stream_speed: tokens/s of each answer
  std::vector<double> aggregate;                       // tokens/s of all streams, one a pair
  std::int64_t tokens = 0, answers = 0, drafted = 0, accepted = 0;
};

struct LoadResult {
  LoadSide plain, speculative;
};

Result<LoadResult> run_load(const ServeLoad& load);

std::string load_json(const ServeLoad& load, const LoadResult& result);
std::string load_table(const ServeLoad& load, const LoadResult& result);

}  // namespace ft::cli
