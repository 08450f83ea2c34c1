// From what was asked to token ids: the text or conversation through the template and the tokenizer, or ids
// as given. Thread: the main thread. Cost: linear in the text. Errors: kInvalid for text that is not UTF-8,
// files that hold no conversation, a template that refuses; kNotFound, kIo for files.
#pragma once

#include <string>
#include <vector>

#include "cli/loading.h"
#include "cli/options.h"

namespace ft::cli {

struct Prompt {
  std::string name;  // for reports of several prompts
  std::vector<std::int32_t> ids;
  std::string text;        // rendered; empty if ids were given
  std::string tools;       // JSON list, or empty
  bool templated = false;  // the answer may hold reasoning and tool calls
};

/// The text of --prompt, --prompt-file or standard input; the last newline of a file or pipe is left out
/// unless raw.
Result<std::string> read_prompt_text(const PromptChoice& choice);
/// Reads standard input if nothing else names the prompt.
Result<Prompt> make_prompt(const PromptChoice& choice, const Loaded& loaded);
/// One user message.
Result<Prompt> user_prompt(const std::string& text, const std::string& system, const std::string& tools,
                           std::optional<bool> think, const Loaded& loaded);
/// A conversation as JSON.
Result<Prompt> render_prompt(const std::string& messages, const std::string& tools, std::optional<bool> think,
                             const Loaded& loaded);
/// Text without a template.
Result<Prompt> raw_prompt(const std::string& text, const Tokenizer& tokenizer);

}  // namespace ft::cli
