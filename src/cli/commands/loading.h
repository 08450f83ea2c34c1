// Prepares a model for a subcommand: config, weights, backend, tokenizer and template, each only if needed. A
// broken model is not wrong usage, so kInvalid becomes kCorrupt here (exit status 1). Nothing may move
// afterwards, because decoders and engines hold references. Weights stay mapped.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/options.h"
#include "cli/args/options.h"
#include "cli/commands/files_ahead.h"
#include "cli/terminal/terminal.h"
#include "lab/measured_model.h"
#include "models/model.h"
#include "sched/calibration/calibration_cache.h"
#include "sched/memory_plan.h"
#include "text/chat_format.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace ft::cli {

struct LoadedModel {
  Model model;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<FilesAhead> ahead;  // until the engine has packed the weights; null: not needed
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;
  std::string chat_template_problem;              // why there is no template
  const ChatFormat* chat_format = &kPlainFormat;  // of the family and the template
  std::int64_t context = 0;                       // tokens, of one stream without a prefix cache
  bool context_open = false;                      // --context auto: serve chooses again
  MemoryPlan plan;                                // of serve
  std::int64_t max_pixels = 0;                    // of a resized image; 0: the default
  double load_ms = 0;                             // so far; packing by the engine is added later
  std::int64_t device_bytes = 0;                  // a GPU's memory for several models; 0: the free memory
  std::string backend_problem;                    // why --backend auto did not take the GPU
  BackendOptions backend_options;                 // with which the backend was made
  std::string calibration;                        // --calibration, the source of `costs`
  PackedCacheOptions packed_cache;                // for the backend
  CalibrationCacheOptions costs;                  // for its engine
};

/// Loads everything for run, chat and bench. A missing template is allowed, since --raw skips it. The later
/// packing draws its progress on `terminal`, if any, which must outlive the backend. `device_bytes`:
/// LoadedModel::device_bytes.
Result<std::unique_ptr<LoadedModel>> load(const ModelOptions& choice, Terminal* terminal = nullptr,
                                          std::int64_t device_bytes = 0);
/// The same, but a model without tokenizer.json is allowed; its prompts are token ids.
Result<std::unique_ptr<LoadedModel>> load_with_text_if_any(const ModelOptions& choice,
                                                           Terminal* terminal = nullptr);
/// The backend that the flags name, with the folders of this machine.
BackendOptions backend_options(const ModelOptions& choice);
RequestModel request_model(const LoadedModel& loaded);
/// For the benches of lab/; `loaded` must outlive it.
MeasuredModel measured(const LoadedModel& loaded);
/// kInvalid for a backend that is for tests and `verify` only.
Status refuse_twin(const std::string& backend);
/// Whether the model runs on a GPU with one stream, or why not.
std::string gpu_fit(const Backend& gpu, const Model& model, std::int64_t context);
/// The same for the GPU of this machine; empty: there is none.
std::string gpu_fit(const Model& model, std::int64_t context, const BackendSettings& settings);
/// Whether the backend maps packed weights from a file, so that they may be larger than memory.
bool maps_weights(const LoadedModel& loaded);
/// With --backend auto: uses the CPU instead of the GPU if a decoder of these options does not fit there.
Status settle_backend(LoadedModel& loaded, const DecoderOptions& options);
/// kUnsupported with the reason unless every id of a drafting model means the same token as in `own`.
Status check_tokens(const std::string& directory, const Tokenizer& own);
Result<Tokenizer> load_tokenizer(const ModelOptions& choice);
/// The model of --model: a folder, a synthetic model (`synth:`, models/synthetic/model.h) or, if `named` is
/// empty, the shipped one.
Result<Model> load_named(const std::string& named, const LoadOptions& options = {});
/// The folder of the tokenizer and template for that model. A synthetic model uses the shipped ones, whose
/// ids exist in every vocabulary of the family.
Result<std::string> text_directory(const std::string& named);

/// The context in tokens: `asked`, or for 0 the minimum for a start. kInvalid beyond the model's own.
Result<std::int64_t> choose_context(std::int64_t asked, const Model& model);

/// An error of model files, with kInvalid as kCorrupt.
Error model_error(Error error);

}  // namespace ft::cli
