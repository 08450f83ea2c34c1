// Load on a running server: streams of chat requests, plain and speculative in turns. In a closed loop each
// client sends one request after another; an open loop sends requests at a given rate. Measures as clients
// do: time to the first token, gaps between frames, tokens/s per stream and in total. One thread per client.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ft::cli {

struct ServeLoad {
  std::string url = "http://127.0.0.1:8080", api_key;
  int streams = 8;    // clients of the closed loop, or max open requests of the open loop
  int requests = 32;  // requests per side of a pair
  double rate = 0;    // requests per second; 0: closed loop
  int max_tokens = 128;
  int pairs = 3;
  double temperature = 0;
  std::uint64_t seed = 1;
};

/// One side: plain or speculative. Times in milliseconds.
struct LoadSide {
  std::vector<double> first_ms, gap_ms, stream_speed;  // stream_speed: tokens/s of each answer
  std::vector<double> aggregate;                       // tokens/s of all streams, one per pair
  std::int64_t tokens = 0, answers = 0, drafted = 0, accepted = 0;
};

struct LoadResult {
  LoadSide plain, speculative;
};

Result<LoadResult> run_load(const ServeLoad& load);

std::string load_json(const ServeLoad& load, const LoadResult& result);
std::string load_table(const ServeLoad& load, const LoadResult& result);

}  // namespace ft::cli
