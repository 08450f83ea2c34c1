#include "cli/option_flags.h"

#include <fmt/format.h>

namespace ft::cli {
namespace {

Setter reads_acceptance(Acceptance& target) {
  return [&target](const std::string& text) -> Status {
    if (text == "coupled") {
      target = Acceptance::kCoupled;
    } else if (text == "ratio") {
      target = Acceptance::kRatio;
    } else {
      return Error{Code::kInvalid, fmt::format("expected coupled or ratio, found '{}'", text)};
    }
    return {};
  };
}

Setter reads_activations(int& target) {
  return [&target](const std::string& text) -> Status {
    if (text != "auto" && text != "8" && text != "16") {
      return Error{Code::kInvalid, fmt::format("expected auto, 8 or 16, found '{}'", text)};
    }
    target = text == "auto" ? 0 : text == "8" ? 8 : 16;
    return {};
  };
}

Setter reads_kv_bits(int& target) {
  return [&target](const std::string& text) -> Status {
    if (text != "8" && text != "16")
      return Error{Code::kInvalid, fmt::format("expected 16 or 8, found '{}'", text)};
    target = text == "8" ? 8 : 16;
    return {};
  };
}

Setter reads_draft_bits(int& target) {
  return [&target](const std::string& text) -> Status {
    if (text != "auto" && text != "0" && text != "4" && text != "8")
      return Error{Code::kInvalid, fmt::format("expected auto, 0, 4 or 8, found '{}'", text)};
    target = text == "auto" ? -1 : text[0] - '0';
    return {};
  };
}

}  // namespace

Setter reads_drafter(DrafterKind& target) {
  return [&target](const std::string& text) -> Status {
    FT_ASSIGN(target, drafter_kind(text));
    return {};
  };
}

void add_output_flags(FlagSet& flags, OutputChoice& output) {
  flags.group("Output");
  flags.add_switch("json", output.json, "One JSON object on stdout, everything else on stderr");
  flags.add_switch("quiet", output.quiet, "Nothing on stderr but errors").letter = "q";
}

void add_model_folder_flag(FlagSet& flags, std::string& directory) {
  flags.add("model", "DIR", reads_text(directory), "Folder of the model (default: the shipped one)").letter =
      "m";
}

void add_kv_bits_flag(FlagSet& flags, int& kv_bits) {
  flags.add("kv-bits", "BITS", reads_kv_bits(kv_bits),
            "16 (default) or 8: of each number of a cached key or value, cpu and cuda (8: a long context "
            "takes half "
            "the memory and is read faster; further from float32)");
}

void add_backend_flags(FlagSet& flags, ModelChoice& model) {
  flags.add("backend", "NAME", reads_text(model.backend),
            "auto (default: cuda where there is an NVIDIA GPU, else cpu), cpu, cuda or ref");
  flags.add(
      "isa", "NAME", reads_text(model.isa),
      "Instruction set of the cpu backend: auto, avx512bf16, avx512vnni, avx512, avxvnni, avx2, neoni8mm, "
      "neondot, neon, portable");
  flags.add(
      "activations", "BITS", reads_activations(model.activations),
      "auto, 8 or 16: what quantised weights are multiplied with on the cpu backend (16: slower, closer "
      "to float32; bf16 weights with 8: bf16, with 16: float32)");
  add_kv_bits_flag(flags, model.kv_bits);
  flags.add("threads", "N", reads_int(model.threads, 0, 1024), "Worker threads; 0: one per core").letter =
      "t";
}

void add_model_flags(FlagSet& flags, ModelChoice& model, bool with_context) {
  flags.group("Model");
  flags
      .add("model", "DIR", reads_text(model.directory),
           "Folder of the model (default: the shipped one), or synth:SHAPE?bits=4&seed=1: random weights")
      .letter = "m";
  flags.add(
      "draft-vocabulary", "N", reads_auto_or(model.frequent_drafts, 0, 1 << 24),
      "The head drafts among the N most frequent tokens and up to 2048 that the text has shown last; 0: all; "
      "auto (default): 32768 if the vocabulary has 65536 and more, else all (never changes the answer)");
  flags.add(
      "draft-bits", "BITS", reads_draft_bits(model.draft_bits),
      "The head's matrices that are stored in more bits are requantised to so many: 4, 8, 0 (as stored) or "
      "auto (default: 4 if the model has less than 6 on the average, else 8; cpu backend; never changes the "
      "answer)");
  add_backend_flags(flags, model);
  flags.add(
      "prepared", "DIR", reads_text(model.prepared),
      "Keep packed weights in DIR, so that the next start maps them; auto: in the cache folder, off: nowhere "
      "(default; cpu backend)");
  if (!with_context) return;
  flags
      .add("context", "N", reads_int(model.context, 0, std::int64_t{1} << 24),
           "Tokens of prompt and answer together; 0: the model's own, at most 4096")
      .letter = "c";
}

void add_cost_flag(FlagSet& flags, ModelChoice& model) {
  flags.add("costs", "DIR", reads_text(model.costs),
            fmt::format("What rounds cost, by which depths are chosen: auto: measured once and remembered in "
                        "the cache folder, measure: at every start, or a folder to remember it in (default "
                        "{}; never changes the answer)",
                        model.costs));
}

void add_prompt_flags(FlagSet& flags, PromptChoice& prompt) {
  flags.group("Prompt (none given: standard input)");
  flags.add("prompt", "TEXT", reads_text(prompt.text), "The prompt").letter = "p";
  flags.add("prompt-file", "FILE", reads_text(prompt.file), "The prompt from a file").letter = "f";
  flags.add("prompt-ids", "IDS", reads_ids(prompt.ids, prompt.has_ids),
            "Token ids 1,2,3: no template, no tokenizer");
  flags.add("messages", "FILE", reads_text(prompt.messages), "A conversation: JSON list of {role, content}");
  flags.add("tools", "FILE", reads_text(prompt.tools), "Tools offered to the model: JSON list of functions");
  flags.add("system", "TEXT", reads_text(prompt.system), "System message before the prompt");
  flags.add_switch("raw", prompt.raw, "No chat template: the model goes on from the text as it stands");
  flags.add("think", "on|off", reads_on_off(prompt.think),
            "Reasoning before the answer (default: the template's)");
}

void add_sampling_flags(FlagSet& flags, SamplingChoice& sampling) {
  flags.group("Sampling (default: the model's generation_config.json)");
  flags.add("temperature", "X", reads_number(sampling.temperature, {0, 100}), "0 is greedy");
  flags.add("top-k", "N", reads_int(sampling.top_k, 0, 1 << 24), "The N likeliest tokens only; 0: all");
  flags.add("top-p", "X", reads_number(sampling.top_p, {0, 1, true}), "The likeliest tokens up to this mass");
  flags.add("min-p", "X", reads_number(sampling.min_p, {0, 1, false, true}),
            "At least X of the likeliest one's chance");
  flags.add("seed", "N", reads_seed(sampling.seed), "Of the noise; the default 0 makes every run the same");
  flags.add("repetition-penalty", "X", reads_number(sampling.repetition, {0, 10, true}),
            "Divides the logits of tokens seen before; 1: off");
  flags.add("presence-penalty", "X", reads_number(sampling.presence, {-10, 10}),
            "Off the logits of emitted tokens");
  flags.add("frequency-penalty", "X", reads_number(sampling.frequency, {-10, 10}),
            "The same, for each occurrence");
  flags.add_list("logit-bias", "ID=V", reads_bias(sampling.bias), "Added to a token's logit (repeatable)");
}

void add_answer_flags(FlagSet& flags, AnswerChoice& answer) {
  flags.group("Answer");
  flags
      .add("max-tokens", "N", reads_int(answer.max_tokens, 1, 1 << 24),
           fmt::format("Longest answer (default {})", answer.max_tokens))
      .letter = "n";
  flags.add_list("stop", "TEXT", appends_text(answer.stops), "Ends the answer before this text (repeatable)");
  flags.add("logprobs", "K", reads_auto_or(answer.logprobs, 0, 20),
            "Log-probabilities with K alternatives (--json)");
}

void add_constraint_flags(FlagSet& flags, ConstraintChoice& constraint) {
  flags.group("Constraint (every token is held to it; drafts too)");
  flags.add("json-schema", "FILE", reads_text(constraint.json_schema), "The answer is JSON by this schema");
  flags.add_switch("json-object", constraint.json_object, "The answer is a JSON object");
  flags.add("regex", "TEXT", reads_text(constraint.regex), "The whole answer matches this expression");
  flags.add("lark", "FILE", reads_text(constraint.lark), "The answer follows this Lark grammar");
  flags.add("thinking-budget", "N", reads_auto_or(constraint.thinking_budget, 0, 1 << 24),
            "Tokens of reasoning at most; auto: no limit");
}

void add_speculation_flags(FlagSet& flags, SpeculationChoice& speculation) {
  flags.group("Speculation (never changes the answer)");
  flags.add("drafter", "NAME", reads_drafter(speculation.drafter), "auto, mtp, lookup or none");
  flags.add("depth", "N", reads_auto_or(speculation.depth, 0, kMaxDepth),
            "Tokens drafted in a round: auto or 0 to 8");
  flags.add("acceptance", "RULE", reads_acceptance(speculation.acceptance),
            "coupled (exact, default) or ratio (same distribution, other tokens)");
  flags.add("predict", "FILE", reads_text(speculation.predict_file),
            "Text that the answer will probably repeat");
  flags.add_switch("explain-depth", speculation.explain_depth,
                   "A line on stderr for every round: how many tokens it drafts, and why");
}

Status check_constraint_flags(const ConstraintChoice& constraint) {
  const int grammars =
      static_cast<int>(!constraint.json_schema.empty()) + static_cast<int>(constraint.json_object) +
      static_cast<int>(constraint.regex.has_value()) + static_cast<int>(!constraint.lark.empty());
  if (grammars <= 1) return {};
  return Error{Code::kInvalid,
               "--json-schema, --json-object, --regex and --lark name the same thing; give only one of them"};
}

Status check_prompt_flags(const PromptChoice& prompt) {
  const int sources = static_cast<int>(prompt.text.has_value()) + static_cast<int>(prompt.file.has_value()) +
                      static_cast<int>(prompt.messages.has_value()) + static_cast<int>(prompt.has_ids);
  if (sources > 1) {
    return Error{
        Code::kInvalid,
        "--prompt, --prompt-file, --prompt-ids and --messages name the same thing; give only one of them"};
  }
  const bool untemplated = prompt.raw || prompt.has_ids;
  const char* how = prompt.raw ? "--raw" : "--prompt-ids";
  const char* useless = !untemplated               ? nullptr
                        : prompt.messages          ? "--messages"
                        : !prompt.tools.empty()    ? "--tools"
                        : !prompt.system.empty()   ? "--system"
                        : prompt.think.has_value() ? "--think"
                                                   : nullptr;
  if (useless != nullptr) {
    return Error{
        Code::kInvalid,
        fmt::format("{} needs the chat template, and {} leaves it out; drop one of them", useless, how)};
  }
  return {};
}

}  // namespace ft::cli
