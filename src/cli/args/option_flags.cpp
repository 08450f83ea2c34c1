#include "cli/args/option_flags.h"

#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>

#include "backends/registry.h"
#include "hub/repository.h"
#include "hub/settings.h"

namespace ft::cli {
namespace {

Setter reads_acceptance(Acceptance& target) {
  return [&target](const std::string& text) -> Status {
    if (text == "coupled") {
      target = Acceptance::kCoupled;
    } else if (text == "rejection" || text == "ratio") {  // the old word
      target = Acceptance::kRejection;
    } else {
      return Error{Code::kInvalid, fmt::format("expected coupled or rejection, found '{}'", text)};
    }
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

Setter reads_scale_bits(int& target) {
  return [&target](const std::string& text) -> Status {
    if (text != "16" && text != "32")
      return Error{Code::kInvalid, fmt::format("expected 16 or 32, found '{}'", text)};
    target = text == "16" ? 16 : 32;
    return {};
  };
}

Setter reads_any_seed(std::optional<std::uint64_t>& target) {
  return [&target](const std::string& text) -> Status {
    FT_TRY(reads_seed(target.emplace())(text));
    return {};
  };
}

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

void add_number(FlagSet& flags, const SamplingNumber<float>& number, AskedSampling& asked) {
  flags.add(with_dashes(number.name), "X",
            reads_number(asked.*number.asked, {number.low, number.high, number.above_low}), number.help);
}

void add_number(FlagSet& flags, const SamplingNumber<int>& number, AskedSampling& asked) {
  flags.add(with_dashes(number.name), "N", reads_int(asked.*number.asked, number.low, number.high),
            number.help);
}

}  // namespace

constexpr std::int64_t kMaxContext = std::int64_t{1} << 24;

Setter reads_context(std::int64_t& target) {
  return [&target](const std::string& text) -> Status {
    if (text == "auto") {
      target = 0;
    } else if (!reads_int(target, 0, kMaxContext)(text).ok()) {
      return Error{Code::kInvalid, fmt::format("expected auto or a whole number from 1 to {}, found '{}'",
                                               kMaxContext, text)};
    }
    return {};
  };
}

Setter reads_drafter(DrafterKind& target, std::vector<DraftFolder>* folders) {
  return [&target, folders, named = false](const std::string& text) mutable -> Status {
    FT_ASSIGN(DrafterChoice choice, parse_drafter(text));
    if (choice.directory.empty()) {
      target = choice.kind;
      named = true;
      return {};
    }
    if (folders == nullptr)
      return Error{Code::kInvalid, "a drafter's folder can be loaded only at start; give it as a flag"};
    folders->push_back({std::string(choice.kind.name()), std::move(choice.directory)});
    if (!named) target = folders->size() == 1 ? choice.kind : DrafterKind::kAuto;
    return {};
  };
}

Setter reads_draft_folder(std::vector<DraftFolder>& folders) {
  return [&folders](const std::string& text) -> Status {
    FT_ASSIGN(DrafterChoice choice, parse_drafter(text));
    if (choice.directory.empty())
      return Error{Code::kInvalid, fmt::format("expected NAME=DIR with a folder, found '{}'", text)};
    folders.push_back({std::string(choice.kind.name()), std::move(choice.directory)});
    return {};
  };
}

void add_output_flags(FlagSet& flags, OutputOptions& output) {
  flags.group("Output");
  flags.add_switch("json", output.json, "Print one JSON object on stdout; everything else goes to stderr");
  flags.add_switch("quiet", output.quiet, "Print only errors on stderr").letter = "q";
}

Setter reads_model(std::string& target) {
  return [&target](const std::string& text) -> Status {
    target = text;
    if (!text.starts_with("http://") && !text.starts_with("https://")) return {};
    FT_ASSIGN(const hub::HubSettings settings,
              hub::read_hub_settings([](const std::string& name) { return std::getenv(name.c_str()); }));
    FT_ASSIGN(target, hub::name_of_address(text, settings.endpoint));
    return {};
  };
}

void add_model_folder_flag(FlagSet& flags, std::string& directory) {
  flags
      .add("model", "NAME", reads_model(directory),
           "Model folder, GGUF file, ORG/NAME or a name of `foretoken models` (default: the shipped model)")
      .letter = "m";
}

void add_backend_settings(FlagSet& flags, BackendSettings& settings) {
  for (const BackendFlag& flag : backend_flags()) {
    const std::string name(flag.name);
    const auto set = [&settings, flag](const std::string& value) -> Status {
      FT_TRY(flag.check(value));
      BackendSetting setting(std::string(flag.name), value);
      setting.required = false;
      if (value != flag.usual_value) settings.set(std::move(setting));
      return {};
    };
    flags.add(name, std::string(flag.value_name), set, std::string(flag.help)).when_typed =
        [&settings, name] { settings.require(name); };
  }
}

void add_backend_flags(FlagSet& flags, ModelOptions& model) {
  flags.add("backend", "NAME", reads_text(model.backend),
            "Backend: auto (default: cuda if there is an NVIDIA GPU with room for the model, else cpu), cpu, "
            "cuda, metal (Apple GPUs, unmeasured) or ref");
  add_backend_settings(flags, model.backend_settings);
  if (flags.find("threads") != nullptr) return;  // the subcommand reads more than one number
  flags
      .add("threads", "N", reads_int(model.threads, 0, 1024),
           "Worker threads; 0 (default): one per core; decoding uses the number that calibration chose")
      .letter = "t";
}

void add_model_flags(FlagSet& flags, ModelOptions& model, bool with_context) {
  flags.group("Model");
  flags
      .add("model", "NAME", reads_model(model.directory),
           "Model folder, GGUF file, ORG/NAME or a name of `foretoken models` (default: the shipped model), "
           "or "
           "synth:SHAPE?bits=4&seed=1 for random weights")
      .letter = "m";
  flags.add("draft-vocabulary", "N", reads_auto_or(model.draft_vocab_size, 0, 1 << 24),
            "Draft vocabulary size: the N most frequent tokens plus up to 2048 recent ones; 0: all; auto "
            "(default): 32768 if the model has at least 65536 tokens, else all. Never changes the answer");
  flags.add("draft-bits", "BITS", reads_draft_bits(model.draft_bits),
            "Requantise the MTP head to 4 or 8 bits; 0: keep it as stored; auto (default): 4 if the model "
            "averages under 6 bits, else 8. cpu backend; never changes the answer");
  flags.add(
      "gguf-scales", "BITS", reads_scale_bits(model.gguf_scale_bits),
      "Scales of the K types of a GGUF file: 32 bits (default) decode to the file's values; 16 bits take "
      "less memory on a GPU and decode faster there, but move each scale by up to 0.05%");
  add_backend_flags(flags, model);
  flags
      .add("packed-weights", "DIR", reads_text(model.packed_cache),
           "Packed-weight cache of the backends cpu and metal, mapped by the next start: off (default), auto "
           "(the cache folder) or a folder")
      .old_name = "prepared";
  if (!with_context) return;
  flags
      .add("context", "N", reads_context(model.context),
           "Max tokens of prompt and answer together; auto (default): the model's maximum, or as many as "
           "memory allows")
      .letter = "c";
  flags.add("max-pixels", "N", reads_int(model.max_pixels, 0, std::int64_t{1} << 32),
            "Max pixels of an image after resizing; 0 (default): 1048576, or the model's limit if it is "
            "smaller. A token of Qwen3.5 is 1024 pixels");
}

void add_calibration_flag(FlagSet& flags, ModelOptions& model) {
  flags
      .add("calibration", "DIR", reads_text(model.calibration),
           fmt::format("Calibration that picks the draft depth: auto (measure once and cache), measure (at "
                       "each start) or a cache folder (default {}). Never changes the answer",
                       model.calibration))
      .old_name = "costs";
}

void add_prompt_flags(FlagSet& flags, PromptOptions& prompt) {
  flags.group("Prompt (default: standard input)");
  flags.add("prompt", "TEXT", reads_text(prompt.text), "Prompt text").letter = "p";
  flags.add("prompt-file", "FILE", reads_text(prompt.file), "Read the prompt from this file").letter = "f";
  flags.add("prompt-ids", "IDS", reads_ids(prompt.ids, prompt.has_ids),
            "Prompt as token ids such as 1,2,3; skips the template and the tokenizer");
  flags.add("messages", "FILE", reads_text(prompt.messages), "Conversation: a JSON list of {role, content}");
  flags.add("tools", "FILE", reads_text(prompt.tools),
            "Tools offered to the model: a JSON list of functions");
  flags.add("system", "TEXT", reads_text(prompt.system), "System message before the prompt");
  flags.add_list("image", "FILE", appends_text(prompt.images),
                 "Put this image before the prompt: PNG, JPEG, WebP, GIF or BMP (repeatable)");
  flags.add_switch("raw", prompt.raw, "Skip the chat template; the model continues the text as given");
  flags.add("think", "on|off", reads_on_off(prompt.think),
            "Reasoning before the answer (default: the template's choice)");
}

void add_sampling_flags(FlagSet& flags, RequestOptions& request) {
  flags.group("Sampling (default: the model's generation_config.json)");
  each_sampling_number([&](const auto& number) { add_number(flags, number, request.sampling); });
  flags.add("seed", "N", reads_any_seed(request.seed),
            "Random seed (default 0); the same seed gives the same answer");
  flags.add_list("logit-bias", "ID=V", reads_bias(request.bias), "Added to a token's logit (repeatable)");
}

void add_answer_flags(FlagSet& flags, RequestOptions& request) {
  flags.group("Answer");
  flags
      .add("max-tokens", "N", reads_int(request.max_tokens, 1, 1 << 24),
           fmt::format("Max tokens of the answer (default {})", request.max_tokens))
      .letter = "n";
  flags.add_list("stop", "TEXT", appends_text(request.stops), "End the answer before this text (repeatable)");
  flags.add("logprobs", "K", reads_auto_or(request.logprobs, 0, 20),
            "Log-probability of each token, with K alternatives (0 to 20); shown with --json");
}

void add_constraint_flags(FlagSet& flags, ConstraintOptions& constraint, RequestOptions& request) {
  flags.group("Structured output (enforced in every verified row)");
  flags.add("json-schema", "FILE", reads_text(constraint.json_schema),
            "Constrain the answer to JSON of this schema");
  flags.add_switch("json-object", constraint.json_object, "Constrain the answer to a JSON object");
  flags.add("regex", "TEXT", reads_text(constraint.regex),
            "Constrain the whole answer to this regular expression");
  flags.add("lark", "FILE", reads_text(constraint.lark), "Constrain the answer to this Lark grammar");
  flags.add("thinking-budget", "N", reads_auto_or(request.thinking_budget, 0, 1 << 24),
            "Max tokens of reasoning; auto (default): no limit");
}

void add_speculation_flags(FlagSet& flags, RequestOptions& request, SpeculationOptions& speculation,
                           ModelOptions* model) {
  flags.group("Speculation");
  flags.add_list("drafter", "NAME",
                 reads_drafter(request.drafter, model != nullptr ? &model->drafters : nullptr),
                 "Drafter: auto (default: the best loaded one in each round), mtp (MTP head), lookup "
                 "(n-gram lookup) or none; eagle3=DIR, dflash=DIR, assistant=DIR or model=DIR loads such a "
                 "drafter or a smaller model and drafts with it (repeatable)");
  flags.add("depth", "N", reads_auto_or(request.depth, 0, kMaxDraftTokens),
            "Draft tokens per round: auto (default) or 0 to 15");
  flags.add(
      "acceptance", "RULE", reads_acceptance(request.acceptance),
      "Acceptance rule: coupled (default, same tokens as plain decoding) or rejection (rejection sampling: "
      "same distribution, other tokens)");
  flags.add("predict", "FILE", reads_text(speculation.predict_file),
            "File whose text the answer is likely to repeat; n-gram lookup drafts from it");
  flags.add_switch("explain-depth", speculation.explain_depth,
                   "Print the depth of each round and its reason on stderr");
}

Status check_constraint_flags(const ConstraintOptions& constraint) {
  const int grammars =
      static_cast<int>(!constraint.json_schema.empty()) + static_cast<int>(constraint.json_object) +
      static_cast<int>(constraint.regex.has_value()) + static_cast<int>(!constraint.lark.empty());
  if (grammars <= 1) return {};
  return Error{Code::kInvalid,
               "--json-schema, --json-object, --regex and --lark exclude each other; give only one of them"};
}

Status check_prompt_flags(const PromptOptions& prompt) {
  const int sources = static_cast<int>(prompt.text.has_value()) + static_cast<int>(prompt.file.has_value()) +
                      static_cast<int>(prompt.messages.has_value()) + static_cast<int>(prompt.has_ids);
  if (sources > 1) {
    return Error{
        Code::kInvalid,
        "--prompt, --prompt-file, --prompt-ids and --messages exclude each other; give only one of them"};
  }
  if (prompt.messages && !prompt.images.empty()) {
    return Error{Code::kInvalid, "--image needs a prompt; with --messages, put the images into its file"};
  }
  const bool untemplated = prompt.raw || prompt.has_ids;
  const char* how = prompt.raw ? "--raw" : "--prompt-ids";
  const char* useless = !untemplated               ? nullptr
                        : prompt.messages          ? "--messages"
                        : !prompt.tools.empty()    ? "--tools"
                        : !prompt.system.empty()   ? "--system"
                        : !prompt.images.empty()   ? "--image"
                        : prompt.think.has_value() ? "--think"
                                                   : nullptr;
  if (useless != nullptr) {
    return Error{Code::kInvalid,
                 fmt::format("{} needs the chat template and {} skips it; omit one of them", useless, how)};
  }
  return {};
}

}  // namespace ft::cli
