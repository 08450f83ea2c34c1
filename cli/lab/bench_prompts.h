// The built-in prompts of `bench` and `verify`: four kinds of text, because acceptance depends on how regular
// a text is. Written for this project.
#pragma once

#include <span>
#include <string_view>

namespace ft::cli {

struct BuiltInPrompt {
  std::string_view name;  // kind and subject
  std::string_view text;
  std::string_view tools;  // JSON list, or empty
  bool raw = false;        // continued as it is, without the chat template
};

std::span<const BuiltInPrompt> built_in_prompts();

}  // namespace ft::cli
