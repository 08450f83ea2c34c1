#include "cli/commands/serving.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/json.h"
#include "base/machine_facts.h"
#include "base/mapped_file.h"
#include "base/system.h"
#include "cli/args/api_keys.h"
#include "cli/args/option_flags.h"
#include "cli/commands/answering.h"
#include "cli/commands/packed_weights_folder.h"
#include "hub/web_file.h"
#include "sched/admission.h"
#include "server/auth.h"
#include "server/ui_asset.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// The identity of the weights and of this program: with the backend, it decides every bit of a result.
Result<std::string> bits_of(const Model& model) {
  FT_ASSIGN(const MappedFile program, MappedFile::open(program_file()));
  return fmt::format("{} {:016x}", model.checkpoint->state_fingerprint(), checksum(program.bytes()));
}

std::string megabytes(std::int64_t bytes) {
  return fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6);
}

/// A line for each tier below the prefix cache.
std::string tier_lines(const Engine& engine) {
  const CacheReport cache = engine.cache();
  std::string lines;
  if (cache.memory) {
    lines += fmt::format("  then      up to {} of this machine's memory for snapshots off the GPU\n",
                         megabytes(cache.memory->limit_bytes));
  }
  if (cache.disk) {
    lines += fmt::format("  folder    {} in {} files, limit {}, in {}\n", megabytes(cache.disk->bytes),
                         cache.disk->files, megabytes(cache.disk->limit_bytes), engine.cache_directory());
  }
  return lines;
}

void add_cache_flags(FlagSet& flags, ServeOptions& serve) {
  flags.add("cache-mb", "N", reads_auto_or(serve.cache_mb, 0, 1 << 20),
            "Memory of the prefix cache in MB; auto (default): on a GPU all that weights and slots leave, "
            "otherwise half of it; 0: off");
  flags.add(
      "cache-host-mb", "N", reads_auto_or(serve.cache_host_mb, 0, 1 << 24),
      "With a GPU: also keep the prefix cache in this much of the machine's memory, in MB; auto (default): "
      "eight prompts of the whole context, at most half of the free memory; 0: none");
  flags.add("cache-dir", "DIR", reads_text(serve.cache_dir),
            "Also keep the prefix cache on disk across restarts: a folder, or auto (in the cache folder, for "
            "this model and backend) (default: memory only)");
  flags.add("cache-dir-mb", "N", reads_auto_or(serve.cache_dir_mb, 1, 1 << 24),
            "Size limit of that folder in MB; auto (default): four prompts of the whole context, at least "
            "4096, at most a quarter of the free disk. The least recently used files are deleted first");
  flags.add("cache-share", "WHAT", reads_choice(serve.cache_share, {"speed", "keys", "none"}),
            "Sharing of the prefix cache between API keys: speed (default): states serve every key, but "
            "tokens cached by another key are reported as computed; keys: they are reported as cached; none: "
            "a state serves only the key that created it");
}

void add_several_flags(FlagSet& flags, ServeOptions& serve) {
  flags
      .add_list(
          "models", "DIR|NAME,NAME|all", appends_text(serve.models),
          "Serve several models: the models of a folder, names of `foretoken models`, or all of them. A "
          "request's `model` selects one; without it, the first answers. Each is loaded at its first "
          "request, in a separate process (repeatable)")
      .setting = false;
  flags.add("idle-minutes", "N", reads_int(serve.idle_minutes, 0, 1 << 20),
            "With several models: unload a model that was idle for this time (default 30); 0: only when "
            "another model needs its memory");
}

void add_key_flags(FlagSet& flags, ServeOptions& serve) {
  flags
      .add_list("api-key", "KEY", appends_key(serve.api_keys),
                "Require this key from clients: visible ASCII characters, not empty (repeatable)")
      .empty_counts = true;
  flags
      .add("api-key-file", "FILE", reads_file_name(serve.api_key_file),
           "Require the keys in this file, one per line; lines that begin with # are comments. SIGHUP reads "
           "it again")
      .empty_counts = true;
  flags
      .add("admin-key-file", "FILE", reads_file_name(serve.admin_key_file),
           "Keys of operators, in the format of --api-key-file: they may use and remove data of other keys "
           "(stored responses, running answers, the prefix cache)")
      .empty_counts = true;
}

}  // namespace

void add_serve_flags(FlagSet& flags, ServeOptions& serve, ModelOptions& model) {
  flags.group("Server");
  flags.add("host", "ADDRESS", reads_text(serve.host),
            "Listen address (default 127.0.0.1: this machine only; 0.0.0.0: the network too)");
  flags.add("port", "N", reads_int(serve.port, 0, 65535), "Port (default 8080); 0: any free port");
  add_key_flags(flags, serve);
  flags.add_list("cors", "ORIGIN", appends_text(serve.origins),
                 "Allow web pages of this origin, such as https://chat.example.org; *: all (repeatable). "
                 "Pages of this machine are always allowed");
  flags.add_list("allow-host", "HOST", appends_text(serve.hosts),
                 "Accept this name in a request's Host header, such as the name that a proxy passes on "
                 "(repeatable). localhost and addresses of this machine are always accepted");
  add_several_flags(flags, serve);
  flags.add_list("alias", "NAME", appends_text(serve.aliases),
                 "Another name for the model; with several models NAME=MODEL (repeatable)");
  flags.add_switch("any-model", serve.any_model, "Accept every model name (default: refuse unknown names)");
  flags.add_switch("strict-fields", serve.strict_fields,
                   "Refuse requests with unknown fields (default: name them in the answer's X-Unknown-Fields "
                   "header and once in the log)");
  flags.add_switch("image-urls", serve.image_urls,
                   "Fetch images given by http or https URL (default: refuse them), only from public "
                   "addresses, at most 10 s and 20 MiB each");
  flags
      .add("connect", "NAME", reads_choice(serve.client, connected_clients()),
           "After the start, also print the settings of this client, like `foretoken connect NAME`")
      .setting = false;
  flags.add_switch("log-json", serve.log_json, "Log each request as a JSON line");
  flags.add_switch("log-polls", serve.log_polls,
                   "Also log successful requests of monitors: /health, /metrics and /v1/cache");
  flags.add("head-timeout", "SECONDS", reads_int(serve.head_s, 1, 3600),
            "Max seconds to receive a request header (default 10)");
  flags.add("idle-timeout", "SECONDS", reads_int(serve.idle_s, 1, 86400),
            "Max seconds a connection waits for its next request (default 75)");
  flags.add("grace", "SECONDS", reads_int(serve.grace_s, 0, 3600),
            "Max seconds that running answers continue after SIGTERM (default 30)");
  flags.group("Engine");
  flags.add("slots", "N", reads_auto_or(serve.slots, 1, 128),
            "Max requests decoded at once; auto (default): 8, or fewer if memory leaves each less than 65536 "
            "tokens");
  flags.add("queue", "N", reads_int(serve.queue, 1, 65536),
            "Max requests that wait for a slot; further ones get 429 (default 256)");
  add_cache_flags(flags, serve);
  flags.add("lookup-memory-mb", "N", reads_int(serve.lookup_memory_mb, 0, 1 << 16),
            "Memory in MB for texts of earlier requests, separate for each API key, from which the recall "
            "drafter drafts (default 64); 0: off");
  flags.add("lookup-memory", "DIR", reads_text(serve.lookup_memory),
            "Also keep those texts in this folder across restarts (default: memory only)");
  flags.add("response-store", "FILE", reads_text(serve.response_store),
            "Where answers of /v1/responses are stored for previous_response_id: auto (default, "
            "responses.sqlite in the state folder), a SQLite file, or off (in memory). Each belongs to its "
            "API key; at most 30 days, 4096 answers and 1 GB (64 MB in memory)");
  flags.add("memory-mb", "N", reads_int(serve.memory_mb, 0, 1 << 24),
            "Memory limit of weights, slots and cache together in MB; 0 (default): the free memory");
  flags.add_switch("max", serve.max,
                   "Max mode: run a Mac's fans at maximum while answers run (foretoken max --install)");
  flags.add_list(
      "drafter", "NAME", reads_drafter(serve.drafter, &model.drafters),
      "Default drafter of requests: auto (default), mtp, lookup, recall or none; eagle3=DIR, "
      "dflash=DIR, assistant=DIR or model=DIR loads such a drafter or a smaller model, which is then "
      "the default (repeatable)");
  flags.add("depth", "N", reads_auto_or(serve.depth, 0, kMaxDraftTokens),
            "Default draft tokens per round: auto (default) or 0 to 15");
}

/// Token ids of another model mean other words, so each model has its own file.
RecallFileOptions recall_file_options(const Model& model, const std::string& folder) {
  if (folder.empty()) return {};
  const std::string key = fingerprint(model.name + "\n" + to_text(model.target));
  return {(std::filesystem::path(folder) / (key.substr(0, 16) + ".texts")).string(), key};
}

/// Bytes of this machine's memory for the cache of a GPU; 0 if the backend works in that memory.
std::int64_t host_cache_bytes(const LoadedModel& loaded, const ServeOptions& choice) {
  if (!loaded.plan.on_device || loaded.backend->name() == "metal" || loaded.plan.cache_bytes == 0) return 0;
  if (choice.cache_host_mb >= 0) return static_cast<std::int64_t>(choice.cache_host_mb) << 20;
  constexpr std::int64_t kMin = std::int64_t{4096} << 20, kPrompts = 8;
  return std::min(std::max(kMin, kPrompts * loaded.plan.prompt_bytes), memory_facts().available / 2);
}

/// The folder of `--cache-dir`; for auto one of this model's weights and this backend's arithmetic.
Result<CacheTierOptions> cache_folder(const LoadedModel& loaded, const ServeOptions& choice) {
  namespace fs = std::filesystem;
  CacheTierOptions folder;
  FT_ASSIGN(folder.source, bits_of(loaded.model));
  folder.directory = choice.cache_dir;
  folder.numbered = choice.cache_dir == "auto";
  if (folder.numbered) {
    const Result<std::string> base = packed_weights_folder("auto");
    if (!base.ok()) {
      return Error{Code::kInvalid,
                   "--cache-dir auto: XDG_CACHE_HOME and HOME are not set; use --cache-dir DIR"};
    }
    constexpr std::size_t kDigits = 16;
    const std::string key =
        fingerprint(loaded.model.checkpoint->state_fingerprint() + loaded.backend->arithmetic());
    const std::string name = file_name(loaded.model) + "-" + key.substr(0, kDigits);
    folder.directory = (fs::path(*base) / "prompts" / name).string();
  }
  constexpr std::int64_t kMin = std::int64_t{4096} << 20, kPrompts = 4, kShareOfDisk = 4;
  folder.limit_bytes = static_cast<std::int64_t>(choice.cache_dir_mb) << 20;
  if (choice.cache_dir_mb > 0) return folder;
  folder.limit_bytes = std::max(kMin, kPrompts * loaded.plan.prompt_bytes);
  fs::path there = folder.directory;  // or the folder that will hold it
  std::error_code failed;
  while (!fs::exists(there, failed) && there.has_relative_path()) there = there.parent_path();
  const fs::space_info disk = fs::space(there.empty() ? "." : there, failed);
  if (!failed) {
    const auto share = static_cast<std::int64_t>(disk.available / kShareOfDisk);
    folder.limit_bytes = std::max<std::int64_t>(1 << 20, std::min(folder.limit_bytes, share));
  }
  return folder;
}

/// The memory of one of several models if no flag sets it: room for a few conversations of an agent and their
/// cache, or less if memory is short. The rest is for the other models.
MemoryAsk modest(MemoryAsk ask, const LoadedModel& loaded, const DecoderOptions& options) {
  constexpr int kFewSlots = 4;
  constexpr std::int64_t kAgentContext = 32768, kPrompts = 4;
  const bool opens_cache = ask.cache_bytes < 0;
  const auto planned = [&](const MemoryAsk& one) {
    const MemoryPlan plan = plan_memory(*loaded.backend, loaded.model, options, one);
    const std::int64_t few = std::min(plan.cache_bytes, kPrompts * plan.prompt_bytes);
    return MemoryAsk{plan.slots, plan.context, opens_cache ? few : one.cache_bytes, one.limit_bytes,
                     one.weights_mapped};
  };
  MemoryAsk roomy = ask;
  if (ask.slots == 0) roomy.slots = kFewSlots;
  if (ask.context == 0) roomy.context = std::min(loaded.model.facts.context, kAgentContext);
  roomy = planned(roomy);
  DecoderOptions taken = options;
  taken.slots = roomy.slots, taken.context = roomy.context, taken.cache_bytes = roomy.cache_bytes;
  const std::int64_t limit = memory_limit(*loaded.backend, loaded.model, ask.limit_bytes);
  const bool fits = limit == 0 || memory_needed(*loaded.backend, loaded.model, taken).total() <= limit;
  return fits ? roomy : planned(ask);
}

/// Uses the backend that fits the minimum that was asked for, and divides its memory.
Status settle_memory(LoadedModel& loaded, const ServeOptions& choice, EngineOptions& options) {
  constexpr int kMegabyte = 20;
  MemoryAsk ask;
  ask.slots = std::max(choice.slots, 0);
  ask.context = loaded.context_open ? 0 : loaded.context;
  ask.cache_bytes = choice.cache_mb < 0 ? -1 : static_cast<std::int64_t>(choice.cache_mb) << kMegabyte;
  ask.limit_bytes = static_cast<std::int64_t>(choice.memory_mb) << kMegabyte;
  DecoderOptions least = options.decoder;
  least.slots = std::max(ask.slots, 1), least.cache_bytes = std::max<std::int64_t>(ask.cache_bytes, 0);
  FT_ASSIGN(least.context, choose_context(ask.context, loaded.model));
  FT_TRY(settle_backend(loaded, least));
  ask.weights_mapped = maps_weights(loaded);
  if (choice.shared) {
    const bool on_device = loaded.backend->limits(loaded.model.target.layout()).memory_bytes > 0;
    ask.limit_bytes = on_device ? choice.shared->device_bytes : choice.shared->machine_bytes;
    ask = modest(ask, loaded, options.decoder);
  }
  const MemoryPlan plan = plan_memory(*loaded.backend, loaded.model, options.decoder, ask);
  options.decoder.slots = plan.slots;
  options.decoder.context = plan.context;
  options.decoder.cache_bytes = plan.cache_bytes;
  options.memory_bytes = plan.limit_bytes;
  loaded.context = plan.context, loaded.plan = plan;
  return {};
}

Result<std::unique_ptr<Engine>> start_serving_engine(LoadedModel& loaded, const ServeOptions& choice,
                                                     const Planned& planned) {
  if (!choice.lookup_memory.empty() && choice.lookup_memory_mb == 0) {
    return Error{Code::kInvalid, "--lookup-memory needs --lookup-memory-mb 1 or more"};
  }
  EngineOptions options;
  options.decoder.max_pixels = loaded.max_pixels;
  options.decoder.recall_bytes = static_cast<std::int64_t>(choice.lookup_memory_mb) << 20;
  FT_TRY(settle_memory(loaded, choice, options));
  if (planned) FT_TRY(planned(memory_needed(*loaded.backend, loaded.model, options.decoder), loaded.plan));
  options.recall_file = recall_file_options(loaded.model, choice.lookup_memory);
  options.queue = static_cast<std::size_t>(choice.queue);
  options.cache_share = choice.cache_share == "keys"   ? CacheShare::kKeys
                        : choice.cache_share == "none" ? CacheShare::kNone
                                                       : CacheShare::kSpeed;
  options.memory_tier_bytes = host_cache_bytes(loaded, choice);
  if (!choice.cache_dir.empty()) {
    FT_ASSIGN(options.folder, cache_folder(loaded, choice));
  }
  return start_engine(loaded, std::move(options));
}

std::shared_ptr<const api::ModelInfo> what_is_served(const LoadedModel& loaded, const Engine& engine,
                                                     const ServeOptions& choice,
                                                     const RequestOptions& request,
                                                     std::shared_ptr<api::ResponseStore> responses) {
  auto model_info = std::make_shared<api::ModelInfo>();
  model_info->responses = std::move(responses);
  static_cast<RequestModel&>(*model_info) = request_model(loaded);
  const Model& model = loaded.model;
  const Decoder& decoder = engine.decoder();
  model_info->tokenizer = &*loaded.tokenizer;
  model_info->chat_template = loaded.chat_template ? &*loaded.chat_template : nullptr;
  model_info->chat_template_problem = loaded.chat_template_problem;
  model_info->chat_format = loaded.chat_format;
  if (!model_info->eos.empty()) {  // a grammar ends with an end token
    model_info->grammars = std::make_shared<const GrammarCompiler>(*loaded.tokenizer, model_info->eos);
  }
  model_info->images = image_input(model, loaded.max_pixels);
  if (!decoder.images_problem().empty()) model_info->images.problem = decoder.images_problem();
  if (choice.image_urls) {
    model_info->images.fetch = [](const std::string& url) { return hub::fetch_web_file(url, {}); };
  }
  model_info->sampler = chosen(request.sampling, model_info->sampler);
  model_info->bias = request.bias;
  model_info->default_drafter = choice.drafter, model_info->default_depth = choice.depth;
  model_info->id = model.name;
  model_info->aliases = choice.aliases, model_info->any_model = choice.any_model;
  model_info->strict_fields = choice.strict_fields;
  model_info->created_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  model_info->family = model.facts.family, model_info->quantisation = model.facts.quantisation;
  model_info->backend = loaded.backend->describe(), model_info->backend_problem = loaded.backend_problem;
  model_info->drafter_problem = decoder.drafter_problem(DrafterKind::kMtp);
  model_info->drafter = drafter_name(model_info->default_drafter, model);
  model_info->version = FORETOKEN_VERSION;
  model_info->parameters = model.facts.parameters, model_info->bytes = decoder.packed_bytes();
  model_info->draft_vocabulary = model.draft_vocabulary;
  model_info->positions = model.facts.context;
  model_info->slots = decoder.options().slots;
  return model_info;
}

Result<ServingKeys> serving_keys(const ServeOptions& serve) {
  ServingKeys keys{serve.api_keys, {}};
  if (!serve.api_key_file.empty()) {
    FT_ASSIGN(const std::vector<std::string> more, read_key_file(serve.api_key_file));
    keys.users.insert(keys.users.end(), more.begin(), more.end());
  }
  if (!serve.admin_key_file.empty()) {
    FT_ASSIGN(keys.operators, read_key_file(serve.admin_key_file));
  }
  return keys;
}

Result<ConnectionFacts> usual_connection() {
  ServeOptions serve;
  ModelOptions model;
  Command command;
  command.name = "serve";
  add_serve_flags(command.flags, serve, model);
  FT_ASSIGN(const SettingsSource source, usual_settings());
  FT_TRY(resolve(
      command, {}, [](const std::string& name) { return std::getenv(name.c_str()); }, source.settings,
      source.path));
  if (serve.port == 0) {
    return Error{
        Code::kInvalid,
        "the settings have port 0, so the server chooses a port at start; give its address with --url"};
  }
  FT_ASSIGN(const ServingKeys keys, serving_keys(serve));
  return ConnectionFacts{serving_url(serve.host, serve.port), "", 0,
                         keys.users.empty() ? "" : keys.users.front()};
}

ConnectionFacts connection_of(const api::ModelInfo& model_info, const std::string& url,
                              const std::vector<std::string>& keys) {
  return {url, model_info.id, model_info.context, keys.empty() ? "" : keys.front()};
}

std::string serving_url(const std::string& host, int port) {
  std::string name = host == "0.0.0.0" || host == "::" ? "127.0.0.1" : host;
  if (name.find(':') != std::string::npos) name = "[" + name + "]";
  return fmt::format("http://{}:{}", name, port);
}

std::string serving_json(const api::ModelInfo& model_info, const MemoryPlan& plan, const std::string& url) {
  return write_json(Json{{"url", url},
                         {"model", model_info.id},
                         {"slots", model_info.slots},
                         {"context", model_info.context},
                         {"cache_mb", plan.cache_bytes >> 20},
                         {"cache_on_gpu", plan.on_device}});
}

std::string memory_lines(const LoadedModel& loaded, const ServeOptions& choice) {
  const MemoryPlan& plan = loaded.plan;
  const char* where = plan.on_device ? "the GPU's memory" : "this machine's memory";
  std::string lines =
      fmt::format("  context   {} tokens a request, prompt and answer together", plan.context);
  if (loaded.context_open) {
    lines += plan.whole_context
                 ? " (auto: the model's maximum)"
                 : fmt::format(" (auto: the model's maximum is {}; {} {} leave room for this many{})",
                               loaded.model.facts.context, plan.slots,
                               plan.slots == 1 ? "slot and its cache" : "slots and their cache",
                               plan.slots > 1 ? "; fewer --slots give more" : "");
  }
  lines += "\n";
  if (plan.cache_bytes == 0) return lines + "  cache     off\n";
  const double prompts = static_cast<double>(plan.cache_bytes) / static_cast<double>(plan.prompt_bytes);
  lines += fmt::format("  cache     up to {} of {}{}: ", megabytes(plan.cache_bytes), where,
                       choice.cache_mb < 0 ? " (auto)" : "");
  if (prompts >= 1) return lines + fmt::format("{:.1f} prompts of the whole context\n", prompts);
  return lines + fmt::format(
                     "prompts longer than about {:.0f} tokens are not cached; raise --cache-mb, or use fewer "
                     "--slots or a smaller --context\n",
                     prompts * static_cast<double>(plan.context));
}

std::string serving_screen(const LoadedModel& loaded, const Engine& engine, const api::ModelInfo& model_info,
                           const std::string& url, const ServeOptions& choice,
                           const server::ServerOptions& options) {
  const Decoder& decoder = engine.decoder();
  std::string drafter =
      model_info.drafter +
      (model_info.default_depth < 0 ? "; depth: auto" : fmt::format("; depth: {}", model_info.default_depth));
  drafter += fmt::format("; calibration: {}", engine.cost_source());
  if (model_info.drafter.starts_with("mtp")) {
    drafter += fmt::format("; draft vocabulary: {}", draft_vocabulary_text(loaded.model));
  }
  // A missing head matters if the model names one, or if there is no other drafter.
  const bool missed =
      loaded.model.mtp_head.state != HeadReport::State::kNone || loaded.model.drafters.empty();
  if (missed && !model_info.drafter_problem.empty()) drafter += " (" + model_info.drafter_problem + ")";
  const std::string page = ui_asset() != nullptr ? fmt::format("  page      {}/\n", url) : "";
  std::string screen = fmt::format(
      "foretoken {} serves {} at {}\n"
      "  model     {}, {}\n"
      "  backend   {}\n"
      "  drafter   {}\n"
      "  memory    {} of weights, {} for {} slots of {} tokens, up to {} for the prefix cache\n"
      "{}{}"
      "  ready     after {:.1f} s\n"
      "{}"
      "  OpenAI    {}/v1      (chat/completions, completions, responses, models)\n"
      "  Anthropic {}         (/v1/messages)\n"
      "  connect   foretoken connect openwebui | cline | continue | opencode | codex | claude-code | sdk\n",
      model_info.version, model_info.id, url, model_info.family, model_info.quantisation, model_info.backend,
      drafter, megabytes(decoder.packed_bytes()),
      megabytes(engine.memory().key_values + engine.memory().states), model_info.slots, model_info.context,
      megabytes(engine.memory().cache), memory_lines(loaded, choice), tier_lines(engine),
      loaded.load_ms / 1e3, page, url, url);
  if (!is_loopback(options.host) && options.api_keys.empty() && options.admin_keys.empty()) {
    screen +=
        "  WARNING   every client that reaches this address can use the model and read its cache; set a key "
        "with --api-key-file, or listen at 127.0.0.1\n";
  }
  return screen;
}

}  // namespace ft::cli
