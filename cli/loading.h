// A model made ready for a subcommand: config, weights, backend, tokenizer, template, each only if it is
// needed. What is wrong with a model is never the user's usage, so kInvalid becomes kCorrupt here (exit
// status 1). Owner: the subcommand; nothing moves afterwards, because decoders and engines hold references.
// Thread: the main thread. Cost: milliseconds, weights stay mapped. Errors: those of each part, naming files.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/registry.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "models/model.h"
#include "sched/cost_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ft::cli {

struct Loaded {
  Model model;
  std::unique_ptr<Backend> backend;
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
  std::string chat_template_problem;  // why there is none
  std::int64_t context = 0;           // tokens
  int kv_bits = 16;                   // that the backend was made with
  double load_ms = 0;                 // so far; the engine's packing comes on top
  PreparedOptions prepared;           // the same
  CostFileOptions costs;              // for its engine
};

/// Everything that run, chat, bench need. The template may be absent: --raw does without. Packing, which
/// comes later, is drawn on `terminal`, if there is one; it must outlive the backend.
Result<std::unique_ptr<Loaded>> load(const ModelChoice& choice, Terminal* terminal = nullptr);
/// The same with token ids as its only prompts if the model's folder holds no tokenizer.json.
Result<std::unique_ptr<Loaded>> load_with_text_if_any(const ModelChoice& choice,
                                                      Terminal* terminal = nullptr);
Result<Tokenizer> load_tokenizer(const ModelChoice& choice);
/// The model that --model names: a folder's, a synthetic one's (`synth:`, cli/synth_model.h) or, if `named`
/// is empty, the shipped one.
Result<Model> load_named(const std::string& named, const LoadOptions& options = {});
/// The folder whose tokenizer and template go with that model. A synthetic one has the shipped ones: their
/// ids are a part of any vocabulary of the family.
Result<std::string> text_directory(const std::string& named);

/// The model's own context if `asked` is 0, at most 4096. kInvalid if `asked` is beyond what the model was
/// made for.
Result<std::int64_t> choose_context(std::int64_t asked, const Model& model);

/// An error of a model's files: kInvalid becomes kCorrupt.
Error model_error(Error error);

}  // namespace ft::cli
