// The flags of each struct of cli/options.h: how a subcommand says which concerns it takes. The structs must
// outlive the flag set. Thread: one. Errors: none here; values are checked when they are read.
#pragma once

#include "cli/flag.h"
#include "cli/options.h"

namespace ft::cli {

void add_output_flags(FlagSet& flags, OutputChoice& output);
void add_model_flags(FlagSet& flags, ModelChoice& model, bool with_context = true);
/// Those of them that say what computes.
void add_backend_flags(FlagSet& flags, ModelChoice& model);
void add_prompt_flags(FlagSet& flags, PromptChoice& prompt);
void add_sampling_flags(FlagSet& flags, SamplingChoice& sampling);
void add_answer_flags(FlagSet& flags, AnswerChoice& answer);
void add_speculation_flags(FlagSet& flags, SpeculationChoice& speculation);

/// More than one of --prompt, --prompt-file, --prompt-ids, --messages is an error; so is what --raw leaves no
/// use for.
Status check_prompt_flags(const PromptChoice& prompt);

}  // namespace ft::cli
