#include "lab/bench_prompts.h"

#include "models/synthetic/random.h"

namespace ft {
namespace {

constexpr std::string_view kWeatherTool =
    R"([{"type":"function","function":{"name":"get_weather","description":"The weather of a city now",)"
    R"("parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}])";

constexpr BuiltInPrompt kPrompts[] = {
    {"chat: fibonacci", "Write a Python function `fibonacci` that returns the nth Fibonacci number.", "",
     false},
    {"chat: dataclass",
     "Write a dataclass `Point` with the fields x and y and a method that adds two points.", "", false},
    {"chat: rename",
     "Rename the variable `x` to `total` in this code:\n\ndef add(x, y):\n    x = x + y\n    return x\n", "",
     false},
    {"code: class", "class Stack:\n    \"\"\"A last-in, first-out list.\"\"\"\n\n    def __init__(self):\n",
     "", true},
    {"tool: weather", "What is the weather in Oslo?", kWeatherTool, false},
    {"docs: prose",
     "Configuration\n=============\n\nThe settings are read from a file in the home directory. ", "", true},
};

}  // namespace

std::span<const BuiltInPrompt> built_in_prompts() { return kPrompts; }

std::vector<std::int32_t> random_prompt(int count, int vocabulary, std::uint64_t seed) {
  Random random(seed, "prompt");
  std::vector<std::int32_t> prompt;
  for (int i = 0; i < count; ++i) {
    prompt.push_back(static_cast<std::int32_t>(random.next() % static_cast<std::uint64_t>(vocabulary)));
  }
  return prompt;
}

}  // namespace ft
