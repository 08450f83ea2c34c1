// The flags of each struct of cli/options.h: how a subcommand says which concerns it takes. The structs must
// outlive the flag set. Thread: one. Errors: none here; values are checked when they are read.
#pragma once

#include <memory>
#include <utility>

#include "cli/command.h"
#include "cli/options.h"

namespace ft::cli {

void add_output_flags(FlagSet& flags, OutputChoice& output);
void add_model_flags(FlagSet& flags, ModelChoice& model, bool with_context = true);
void add_kv_bits_flag(FlagSet& flags, int& kv_bits);
/// Whether what rounds cost is remembered, for what starts an engine; model.costs is the default.
void add_cost_flag(FlagSet& flags, ModelChoice& model);
/// Those of them that say what computes.
void add_backend_flags(FlagSet& flags, ModelChoice& model);
/// The model alone, for what computes nothing.
void add_model_folder_flag(FlagSet& flags, std::string& directory);
void add_prompt_flags(FlagSet& flags, PromptChoice& prompt);
void add_sampling_flags(FlagSet& flags, SamplingChoice& sampling);
void add_answer_flags(FlagSet& flags, AnswerChoice& answer);
/// What the answer must be, and how much reasoning may precede it.
void add_constraint_flags(FlagSet& flags, ConstraintChoice& constraint);
void add_speculation_flags(FlagSet& flags, SpeculationChoice& speculation);

/// The word of --drafter.
Setter reads_drafter(DrafterKind& target);

/// More than one of --prompt, --prompt-file, --prompt-ids, --messages is an error; so is what --raw leaves no
/// use for.
Status check_prompt_flags(const PromptChoice& prompt);
/// More than one of --json-schema, --json-object, --regex, --lark is an error.
Status check_constraint_flags(const ConstraintChoice& constraint);

/// The end of every subcommand's builder: --json and --quiet into options->output, the options kept as long
/// as the command, and work(*options, terminal) as what it does.
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
