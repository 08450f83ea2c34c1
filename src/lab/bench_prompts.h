// The built-in prompts of `bench` and `verify`: four kinds of text, because acceptance depends on how regular
// a text is. Written for this project.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace ft {

struct BuiltInPrompt {
  std::string_view name;  // kind and subject
  std::string_view text;
  std::string_view tools;  // JSON list, or empty
  bool raw = false;        // continued as it is, without the chat template
};

std::span<const BuiltInPrompt> built_in_prompts();

/// `count` random ids below `vocabulary`, for random weights.
std::vector<std::int32_t> random_prompt(int count, int vocabulary, std::uint64_t seed);

}  // namespace ft
