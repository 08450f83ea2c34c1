// The flags of each struct in cli/args/options.h; a subcommand adds the ones it takes. The structs must
// outlive the flag set.
#pragma once

#include <memory>
#include <utility>

#include "cli/args/command.h"
#include "cli/args/options.h"

namespace ft::cli {

void add_output_flags(FlagSet& flags, OutputOptions& output);
void add_model_flags(FlagSet& flags, ModelOptions& model, bool with_context = true);
/// A context in tokens: auto is 0.
Setter reads_context(std::int64_t& target);
/// The flags that the backends declare. A flag that the user typed is required: another backend refuses it.
void add_backend_settings(FlagSet& flags, BackendSettings& settings);
/// The calibration flag, for subcommands that start an engine; model.costs is the default.
void add_calibration_flag(FlagSet& flags, ModelOptions& model);
/// The subset that selects backend, precision and threads.
void add_backend_flags(FlagSet& flags, ModelOptions& model);
/// Only the model folder, for subcommands that do not compute.
void add_model_folder_flag(FlagSet& flags, std::string& directory);
void add_prompt_flags(FlagSet& flags, PromptOptions& prompt);
void add_sampling_flags(FlagSet& flags, RequestOptions& request);
/// request.max_tokens is the default.
void add_answer_flags(FlagSet& flags, RequestOptions& request);
/// Structured output and the reasoning budget.
void add_constraint_flags(FlagSet& flags, ConstraintOptions& constraint, RequestOptions& request);
void add_speculation_flags(FlagSet& flags, RequestOptions& request, SpeculationOptions& speculation,
                           ModelOptions* model = nullptr);

/// A value of --drafter: a name sets `target`, NAME=DIR adds a folder. Without a name the first folder sets
/// `target` too, a second one sets auto. `folders` null: folders are refused, since the model is loaded.
Setter reads_drafter(DrafterKind& target, std::vector<DraftFolder>* folders);

/// A model's name or folder; the page of a repository at the hub (HF_ENDPOINT) becomes ORG/NAME[@REVISION].
Setter reads_model(std::string& target);

/// NAME=DIR alone.
Setter reads_draft_folder(std::vector<DraftFolder>& folders);

/// Rejects more than one of --prompt, --prompt-file, --prompt-ids, --messages, and flags that --raw makes
/// useless.
Status check_prompt_flags(const PromptOptions& prompt);
/// Rejects more than one of --json-schema, --json-object, --regex, --lark.
Status check_constraint_flags(const ConstraintOptions& constraint);

/// Completes a subcommand: adds --json and --quiet to options->output, keeps the options alive with the
/// command, and runs work(*options, terminal).
template <class Options>
Command bind_options(Command command, std::shared_ptr<Options> options,
                     Result<int> (*work)(const Options&, Terminal&)) {
  add_output_flags(command.flags, options->output);
  command.work = [options, work](Terminal& terminal) { return work(*options, terminal); };
  command.json = &options->output.json, command.quiet = &options->output.quiet;
  command.options = std::move(options);
  return command;
}

}  // namespace ft::cli
