// Turns the prompt flags into token ids: text or conversation through template and tokenizer, or ids as
// given.
#pragma once

#include <string>
#include <vector>

#include "cli/args/options.h"
#include "cli/commands/loading.h"
#include "speculation/prompt_images.h"

namespace ft::cli {

struct Prompt {
  std::string name;  // for reports of several prompts
  std::vector<std::int32_t> ids;
  std::vector<PromptImage> images;
  std::string text;        // rendered; empty if ids were given
  std::string tools;       // JSON list, or empty
  bool templated = false;  // the answer may hold reasoning and tool calls
};

/// The text of --prompt, --prompt-file or standard input. Drops the final newline of a file or pipe unless
/// raw.
Result<std::string> read_prompt_text(const PromptOptions& choice);
/// Reads standard input if no flag gives the prompt.
Result<Prompt> make_prompt(const PromptOptions& choice, const LoadedModel& loaded);
/// One user message; `images` are files.
Result<Prompt> user_prompt(const std::string& text, const std::string& system, const std::string& tools,
                           std::optional<bool> think, const LoadedModel& loaded,
                           const std::vector<std::string>& images = {});
/// A conversation as JSON, with images as data URIs or names of files.
Result<Prompt> render_prompt(const std::string& messages, const std::string& tools, std::optional<bool> think,
                             const LoadedModel& loaded);
/// The prompts of a file's text: paragraphs with an empty line between two, without line ends around them.
std::vector<std::string> paragraphs(std::string text);
/// Text without a template.
Result<Prompt> raw_prompt(const std::string& text, const Tokenizer& tokenizer);

}  // namespace ft::cli
