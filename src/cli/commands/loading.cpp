#include "cli/commands/loading.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <future>
#include <optional>

#include "backends/registry.h"
#include "base/text_layout.h"
#include "cli/commands/calibration_place.h"
#include "cli/commands/model_path.h"
#include "cli/commands/model_texts.h"
#include "cli/commands/packed_weights_folder.h"
#include "cli/library/heads.h"
#include "drafters/registry.h"
#include "hub/repository.h"
#include "models/draft_network.h"
#include "models/family.h"
#include "models/synthetic/model.h"
#include "sched/admission.h"
#include "sched/machine_memory.h"
#include "sched/memory_plan.h"
#include "text/end_token.h"

namespace ft::cli {
namespace {

constexpr std::int64_t kAheadShare = 4;  // files read ahead take at most a quarter of the free memory

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Error model_error(Error error) {
  if (error.code == Code::kInvalid) error.code = Code::kCorrupt;
  return error;
}

Result<std::int64_t> choose_context(std::int64_t asked, const Model& model) {
  const std::int64_t most = model.facts.context;
  if (asked == 0) return std::min(most, kMinContext);
  if (asked > most) {
    return Error{Code::kInvalid,
                 fmt::format("--context: {} exceeds the {} positions of {}", asked, most, model.name)};
  }
  return asked;
}

Result<std::string> text_directory(const std::string& named) {
  return find_model(is_synth_name(named) ? "" : named);
}

Result<Model> load_named(const std::string& named, const LoadOptions& options) {
  if (is_synth_name(named)) return make_synth_model(named, options);
  FT_ASSIGN(const std::string directory, find_model(named));
  LoadOptions with_head = options;
  if (const KeptHead kept = kept_head(directory); options.head_directory.empty())
    with_head.head_directory = kept.directory;
  Result<Model> model = load_model(directory, with_head);
  if (!model.ok()) return model_error(model.error());
  // A snapshot of the hub's cache is a folder named by its commit.
  if (const std::string name = hub::name_of_snapshot(directory); !name.empty()) model->name = name;
  return model;
}

BackendOptions backend_options(const ModelOptions& choice) {
  BackendOptions options;
  options.name = choice.backend, options.threads = choice.threads;
  options.settings = choice.backend_settings, options.kernel_folder = kernel_folder();
  return options;
}

namespace {

/// A progress bar for each slow task of a backend; the terminal must outlive the backend.
PackProgress bar_on(Terminal& terminal) {
  struct Bar {
    std::string task;
    std::unique_ptr<Progress> drawn;
  };
  return [&terminal, bar = std::make_shared<Bar>()](const char* task, std::int64_t done, std::int64_t total) {
    if (!bar->drawn || bar->task != task) {
      bar->drawn.reset();
      bar->drawn = std::make_unique<Progress>(terminal, task, total);
      bar->task = task;
    }
    bar->drawn->set(done, bytes_text(static_cast<double>(total)));
    if (done >= total) bar->drawn.reset();
  };
}

/// Whether a GPU runs the model's programs and has room for a decoder. `device_bytes`: the room; 0: the free
/// memory.
Status check_backend(const Backend& backend, const Model& model, const DecoderOptions& options,
                     std::int64_t device_bytes = 0) {
  FT_TRY(backend.check_supported(model.target));
  for (const DrafterSpec* drafter : drafters_of(model)) {
    const Program* network = drafter->network(model);
    if (network == nullptr) continue;
    if (const Status fits = backend.check_supported(*network); !fits.ok())
      return Error{fits.error().code, fmt::format("drafter {}: {}", drafter->name, fits.error().message)};
  }
  MemoryReport memory = memory_needed(backend, model, options);
  memory.limit = backend.limits(model.target.layout()).memory_bytes;
  if (memory.limit > 0 && device_bytes > 0) memory.limit = device_bytes;
  return check_memory(memory, options);
}

std::int64_t context_for_one(const LoadedModel& loaded) {
  DecoderOptions one;
  one.max_pixels = loaded.max_pixels;
  MemoryAsk ask;
  ask.slots = 1, ask.cache_bytes = 0, ask.weights_mapped = maps_weights(loaded);
  return plan_memory(*loaded.backend, loaded.model, one, ask).context;
}

/// The folders that the user names, else those that belong to the model.
Result<std::vector<DraftFolder>> drafters_for(const ModelOptions& choice) {
  if (!choice.drafters.empty() || is_synth_name(choice.directory)) return choice.drafters;
  FT_ASSIGN(const std::string directory, find_model(choice.directory));
  return found_drafters(directory);
}

/// A folder next to the model is loaded without being named, so its error says so.
Error of_loading(Error error, const ModelOptions& choice) {
  if (choice.drafters.empty() && error.message.starts_with("drafter "))
    error.message += "; this folder is loaded because it is next to the model: complete or remove it";
  return error;
}

/// Loads only the model and the backend.
Result<std::unique_ptr<LoadedModel>> load_without_text(const ModelOptions& choice, Terminal* terminal,
                                                       std::int64_t device_bytes = 0) {
  const auto start = std::chrono::steady_clock::now();
  auto loaded = std::make_unique<LoadedModel>();
  loaded->device_bytes = device_bytes;
  LoadOptions load_options;
  load_options.draft_vocab_size = choice.draft_vocab_size, load_options.draft_bits = choice.draft_bits;
  load_options.gguf_scale_bits = choice.gguf_scale_bits;
  FT_ASSIGN(load_options.drafters, drafters_for(choice));
  Result<Model> model = load_named(choice.directory, load_options);
  if (!model.ok()) return of_loading(model.error(), choice);
  loaded->model = std::move(*model);
  for (const DraftNetwork& network : loaded->model.drafters) {
    const std::string note = unused_part(network);
    if (terminal != nullptr && !note.empty()) terminal->note(note);
  }
  FT_ASSIGN(const std::string folder, packed_weights_folder(choice.packed_cache));
  BackendOptions options = backend_options(choice);
  options.packed_cache = packed_cache_options(folder, loaded->model);
  if (terminal != nullptr) {
    options.progress = bar_on(*terminal);
  }
  options.notice = [terminal, to = loaded.get()](const std::string& why) {
    to->backend_problem = why;
    if (terminal != nullptr) terminal->note(why);
  };
  loaded->packed_cache = options.packed_cache;
  FT_ASSIGN(loaded->context, choose_context(choice.context, loaded->model));
  DecoderOptions least;
  least.slots = 1, least.context = loaded->context;
  options.check_device = [&model = loaded->model, least, device_bytes](const Backend& backend) {
    return check_backend(backend, model, least, device_bytes);
  };
  options.target = &loaded->model.target, options.host_bytes = available_memory();
  FT_ASSIGN(loaded->backend, make_backend(options));
  loaded->backend_options = std::move(options), loaded->calibration = choice.calibration;
  loaded->max_pixels = choice.max_pixels;
  loaded->context_open = choice.context == 0;
  if (loaded->context_open) loaded->context = context_for_one(*loaded);
  loaded->costs = calibration_place(choice.calibration, loaded->model, *loaded->backend, !folder.empty());
  loaded->load_ms = since_ms(start);
  return loaded;
}

}  // namespace

Status check_tokens(const std::string& directory, const Tokenizer& own) {
  Result<Tokenizer> other = read_tokenizer(directory);
  if (!other.ok()) return model_error(other.error());
  const auto refused = [&](const std::string& why) {
    return Error{
        Code::kUnsupported,
        fmt::format("drafter model: the tokenizer of {} differs from the target's: {}; use a model of "
                    "the same family",
                    directory, why)};
  };
  const std::int32_t both = std::min(own.vocab_size(), other->vocab_size());
  for (std::int32_t id = 0; id < both; ++id) {
    if (own.token_bytes(id) == other->token_bytes(id) && own.is_added(id) == other->is_added(id)) continue;
    return refused(fmt::format("token {} differs", id));
  }
  if (other->vocab_size() > own.vocab_size())
    return refused(
        fmt::format("it has {} tokens and the target has {}", other->vocab_size(), own.vocab_size()));
  return {};
}

namespace {

/// A token that also ends an answer, for models whose configuration lacks it.
void add_end_token(std::optional<std::int32_t> end, ModelFacts& facts) {
  if (!end || *end >= facts.vocabulary) return;
  if (std::ranges::find(facts.eos_ids, *end) == facts.eos_ids.end()) facts.eos_ids.push_back(*end);
}

/// What a model's texts hold.
struct ReadTexts {
  ModelTexts texts;
  Tokenizer tokenizer;
};

Result<ReadTexts> read_texts(const std::string& directory) {
  Result<ModelTexts> texts = ModelTexts::open(directory);
  if (!texts.ok()) return model_error(texts.error());
  Result<Tokenizer> tokenizer = texts->tokenizer();
  if (!tokenizer.ok()) return model_error(tokenizer.error());
  return ReadTexts{std::move(*texts), std::move(*tokenizer)};
}

Status use_texts(Result<ReadTexts> read, LoadedModel& loaded) {
  const auto start = std::chrono::steady_clock::now();
  if (!read.ok()) return read.error();
  const ModelTexts& texts = read->texts;
  loaded.tokenizer.emplace(std::move(read->tokenizer));
  add_end_token(texts.end_token(*loaded.tokenizer), loaded.model.facts);
  for (const DraftNetwork& network : loaded.model.drafters) {
    if (network.name == DrafterKind::kModel.name())
      FT_TRY(check_tokens(network.directory, *loaded.tokenizer));
  }
  Result<ChatTemplate> chat_template = texts.chat_template();
  if (chat_template.ok()) {
    loaded.chat_template.emplace(std::move(*chat_template));
    for (const std::int32_t end : turn_ends_in(loaded.chat_template->source(), *loaded.tokenizer))
      add_end_token(end, loaded.model.facts);
  } else {
    loaded.chat_template_problem = chat_template.error().message;
  }
  loaded.chat_format = &choose_chat_format(chat_formats_of(loaded.model.facts.family),
                                           loaded.chat_template ? loaded.chat_template->source() : "");
  loaded.load_ms += since_ms(start);
  return {};
}

}  // namespace

std::string gpu_fit(const Backend& gpu, const Model& model, std::int64_t context) {
  DecoderOptions least;
  least.slots = 1, least.context = context;
  if (const Status status = check_backend(gpu, model, least); !status.ok()) return status.error().message;
  const auto free = static_cast<double>(gpu.limits(model.target.layout()).memory_bytes);
  const auto needed = static_cast<double>(memory_needed(gpu, model, least).total());
  return fmt::format("fits: {} of {} free on {}", bytes_text(needed), bytes_text(free), gpu.describe());
}

std::string gpu_fit(const Model& model, std::int64_t context, const BackendSettings& settings) {
  BackendOptions options;
  options.name = gpu_backend(), options.settings = settings.optional();
  options.kernel_folder = kernel_folder();
  const Result<std::unique_ptr<Backend>> backend = make_backend(options);
  if (!backend.ok()) return backend.error().code == Code::kNotFound ? "" : backend.error().message;
  return gpu_fit(**backend, model, context);
}

RequestModel request_model(const LoadedModel& loaded) {
  const ModelFacts& facts = loaded.model.facts;
  RequestModel model;
  model.vocabulary = facts.vocabulary, model.context = loaded.context;
  model.eos.assign(facts.eos_ids.begin(), facts.eos_ids.end());
  model.sampler = facts.sampling;
  return model;
}

MeasuredModel measured(const LoadedModel& loaded) {
  return {*loaded.backend, loaded.model, loaded.tokenizer ? &*loaded.tokenizer : nullptr, loaded.chat_format,
          loaded.backend_options.threads};
}

bool maps_weights(const LoadedModel& loaded) {
  return !loaded.packed_cache.folder.empty() && loaded.backend->name() == "cpu";
}

Status settle_backend(LoadedModel& loaded, const DecoderOptions& options) {
  BackendOptions& made = loaded.backend_options;
  if (made.name != "auto" || loaded.backend->name() != gpu_backend()) return {};
  made.check_device = [&loaded, options](const Backend& backend) {
    return check_backend(backend, loaded.model, options, loaded.device_bytes);
  };
  if (made.check_device(*loaded.backend).ok()) return {};
  loaded.backend.reset();
  FT_ASSIGN(loaded.backend, make_backend(made));
  loaded.costs = calibration_place(loaded.calibration, loaded.model, *loaded.backend,
                                   !loaded.packed_cache.folder.empty());
  return {};
}

Status refuse_twin(const std::string& backend) {
  if (backend != "metal-twin") return {};
  return Error{Code::kInvalid,
               "--backend metal-twin runs the kernels for Apple GPUs as C++ on one thread, for `foretoken "
               "verify` only; use --backend cpu"};
}

Result<std::unique_ptr<LoadedModel>> load(const ModelOptions& choice, Terminal* terminal,
                                          std::int64_t device_bytes) {
  FT_TRY(refuse_twin(choice.backend));
  FT_ASSIGN(const std::string place, text_directory(choice.directory));
  // The disk, the tokenizer and the programs need each other only at the end.
  FT_ASSIGN(const std::string packed, packed_weights_folder(choice.packed_cache));
  std::unique_ptr<FilesAhead> ahead;
  if (packed.empty() && !is_synth_name(choice.directory))
    ahead = std::make_unique<FilesAhead>(place, available_memory() / kAheadShare);
  std::future<Result<ReadTexts>> texts =
      std::async(std::launch::async | std::launch::deferred, [&place] { return read_texts(place); });
  FT_ASSIGN(std::unique_ptr<LoadedModel> loaded, load_without_text(choice, terminal, device_bytes));
  loaded->ahead = std::move(ahead);
  const auto start = std::chrono::steady_clock::now();
  Result<ReadTexts> read = texts.get();
  loaded->load_ms += since_ms(start);
  FT_TRY(use_texts(std::move(read), *loaded));
  return loaded;
}

Result<std::unique_ptr<LoadedModel>> load_with_text_if_any(const ModelOptions& choice, Terminal* terminal) {
  FT_ASSIGN(std::unique_ptr<LoadedModel> loaded, load_without_text(choice, terminal));
  FT_ASSIGN(const std::string texts, text_directory(choice.directory));
  if (has_tokenizer(texts)) FT_TRY(use_texts(read_texts(texts), *loaded));
  return loaded;
}

Result<Tokenizer> load_tokenizer(const ModelOptions& choice) {
  FT_ASSIGN(const std::string directory, text_directory(choice.directory));
  Result<Tokenizer> tokenizer = read_tokenizer(directory);
  if (!tokenizer.ok()) return model_error(tokenizer.error());
  return tokenizer;
}

}  // namespace ft::cli
