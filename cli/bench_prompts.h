// The prompts that `bench` and `verify` bring along: four kinds of text, because drafts are as good as the
// text is regular. Written for this project. Thread: any. Cost: none.
#pragma once

#include <span>
#include <string_view>

namespace ft::cli {

struct BuiltInPrompt {
  std::string_view name;  // kind and subject
  std::string_view text;
  std::string_view tools;  // JSON list, or empty
  bool raw = false;        // continued as it stands, without the chat template
};

std::span<const BuiltInPrompt> built_in_prompts();

}  // namespace ft::cli
