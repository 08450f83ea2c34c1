// `foretoken tokenize`: encodes text as token ids and decodes ids.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/args/option_flags.h"
#include "cli/commands/loading.h"
#include "cli/commands/prompt.h"
#include "cli/commands/subcommands.h"
#include "cli/terminal/report_json.h"

namespace ft::cli {
namespace {

struct TokenizeOptions {
  OutputOptions output;
  ModelOptions model;
  PromptOptions prompt;
  bool special = false;
};

Result<int> run_tokenize(const TokenizeOptions& options, Terminal& terminal) {
  FT_ASSIGN(const Tokenizer tokenizer, load_tokenizer(options.model));
  std::vector<std::int32_t> ids = options.prompt.ids;
  std::string text;
  if (options.prompt.has_ids) {
    for (const std::int32_t id : ids) {
      if (id < tokenizer.vocab_size()) continue;
      return Error{Code::kInvalid,
                   fmt::format("--ids: {} is outside the tokenizer's {} ids", id, tokenizer.vocab_size())};
    }
    text = tokenizer.decode(ids, false);
  } else {
    FT_ASSIGN(text, read_prompt_text(options.prompt));
    FT_ASSIGN(ids, tokenizer.encode(text, options.special));
  }
  if (options.output.json) {
    std::vector<std::string> pieces;
    for (const std::int32_t id : ids) pieces.emplace_back(tokenizer.token_bytes(id));
    terminal.out(tokenize_json(ids, pieces, text) + "\n");
  } else if (options.prompt.has_ids) {
    terminal.out(text + "\n");
  } else {
    terminal.out(fmt::format("{}\n", fmt::join(ids, ",")));
  }
  return 0;
}

}  // namespace

Command tokenize_command() {
  auto options = std::make_shared<TokenizeOptions>();
  options->prompt.raw = true;
  Command command;
  command.name = "tokenize";
  command.summary = "Encode text as token ids, or decode ids with --ids";
  command.examples =
      "  foretoken tokenize \"def add(\"\n"
      "  foretoken tokenize --ids 332,807,7\n"
      "  foretoken tokenize -f notes.txt --json\n";
  command.flags.group("Text (default: standard input)");
  command.flags.positional = "prompt";
  command.flags.add("prompt", "TEXT", reads_text(options->prompt.text), "Text to encode").letter = "p";
  command.flags.add("prompt-file", "FILE", reads_text(options->prompt.file), "Read the text from this file")
      .letter = "f";
  command.flags.add("ids", "IDS", reads_ids(options->prompt.ids, options->prompt.has_ids),
                    "Token ids to decode, such as 1,2,3");
  command.flags.add_switch("special", options->special,
                           "Add the begin and end tokens of the tokenizer (default: off)");
  command.flags.group("Model");
  add_model_folder_flag(command.flags, options->model.directory);
  command.check = [options] { return check_prompt_flags(options->prompt); };
  return bind_options(std::move(command), std::move(options), run_tokenize);
}

}  // namespace ft::cli
