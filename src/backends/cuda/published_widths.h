// The widths that linears of published models read. Owner: tests.
#pragma once

#include <set>
#include <vector>

namespace ft {

/// Hidden sizes, heads together, MLPs inside.
struct Widths {
  const char* model;
  std::vector<int> inputs;
};
inline const std::vector<Widths>& published() {
  static const std::vector<Widths> all = {
      {"Qwen3.5 0.8B to 27B", {1024, 2048, 2560, 3584, 4096, 5120, 6144, 9216, 12288, 17408}},
      {"Qwen3.5 35B-A3B, 122B-A10B", {512, 1024, 2048, 3072}},
      {"Gemma 4 E2B, E4B", {1536, 2560, 6144, 10240, 12288}},
      {"Gemma 4 26B-A4B", {704, 2112, 2816, 4096, 8192}},
      {"Gemma 4 31B", {5376, 8192, 16384, 21504}},
      {"Llama 3", {2048, 3072, 4096, 8192, 14336, 28672}},
      {"SmolLM2, SmolLM3", {576, 960, 1536, 2560, 8192, 11008}},
      {"Granite 3", {2048, 4096, 8192, 12800}},
      {"Mistral", {4096, 5120, 12288, 14336, 32768}},
      {"Qwen2.5", {896, 1536, 3584, 4864, 8960, 11008, 13824, 18944, 27648, 29568}},
      {"Qwen3", {768, 1024, 2048, 2560, 4096, 5120, 6144, 9728, 12288, 25600}},
      {"gpt-oss", {2880, 4096}},
      {"GLM-4.5 to 4.7", {1408, 1536, 4096, 5120, 10944, 12288}},
  };
  return all;
}

/// All of them, ascending, each once.
inline std::vector<int> published_inputs() {
  std::set<int> all;
  for (const Widths& widths : published()) all.insert(widths.inputs.begin(), widths.inputs.end());
  return {all.begin(), all.end()};
}

}  // namespace ft
