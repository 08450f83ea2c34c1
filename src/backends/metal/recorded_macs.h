// Properties of Macs as their owners published them: inputs for tests, as no Mac is at hand.
#pragma once

#include <cstdint>

#include "backends/metal/gpu_facts.h"

namespace ft::metal {

struct RecordedMac {
  GpuFacts gpu;
  std::int64_t memory;  // bytes
  const char* text;     // of describe(), up to the working set
  const char* source;
};

// The buffer limits are not in these reports; half of the memory or more is what Apple documents.
inline const RecordedMac kRecordedMacs[] = {
    {{"Apple M1", 7, 5461ULL << 20, 4096ULL << 20},
     8LL << 30,
     "Apple M1 (family Apple 7), working set 5.7 GB",
     "github.com/h2oai/h2ogpt/issues/1359"},
    {{"Apple M1", 7, 10922ULL << 20, 8192ULL << 20},
     16LL << 30,
     "Apple M1 (family Apple 7), working set 11.5 GB",
     "github.com/ise-uiuc/magicoder/issues/19"},
    {{"Apple M2 Max", 8, 21845ULL << 20, 16384ULL << 20},
     32LL << 30,
     "Apple M2 Max (family Apple 8), working set 22.9 GB",
     "github.com/ollama/ollama/issues/434"},
    {{"Apple M2 Max", 8, 73728ULL << 20, 55296ULL << 20},
     96LL << 30,
     "Apple M2 Max (family Apple 8), working set 77.3 GB",
     "github.com/ggml-org/llama.cpp/issues/3213"},
    {{"Apple M3", 9, 11453'250'000, 8192ULL << 20},
     16LL << 30,
     "Apple M3 (family Apple 9), working set 11.5 GB",
     "a published log of llama.cpp: recommendedMaxWorkingSetSize = 11453.25 MB"},
    {{"Apple M3 Max", 9, 38654'710'000, 24576ULL << 20},
     48LL << 30,
     "Apple M3 Max (family Apple 9), working set 38.7 GB",
     "a published log of llama.cpp: recommendedMaxWorkingSetSize = 38654.71 MB"},
    {{"Apple M4", 9, 11453'250'000, 8192ULL << 20},
     16LL << 30,
     "Apple M4 (family Apple 9), working set 11.5 GB",
     "github.com/ggml-org/llama.cpp/issues/11083"},
    {{"Apple M5 Max", 10, 40200'900'000, 24576ULL << 20},
     48LL << 30,
     "Apple M5 Max (family Apple 10), working set 40.2 GB",
     "github.com/ggml-org/llama.cpp/pull/16634"},
};

}  // namespace ft::metal
