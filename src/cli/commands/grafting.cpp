#include "cli/commands/grafting.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <unistd.h>

#include "backends/registry.h"
#include "base/json.h"
#include "base/text_file.h"
#include "base/text_layout.h"
#include "cli/commands/conversion_work.h"
#include "cli/commands/hub_access.h"
#include "cli/commands/loading.h"
#include "cli/commands/model_path.h"
#include "cli/commands/model_texts.h"
#include "cli/commands/weight_matrix.h"
#include "cli/library/heads.h"
#include "cli/library/library.h"
#include "cli/terminal/reports.h"
#include "convert/head.h"
#include "format/gguf/files.h"
#include "hub/repository.h"
#include "hub/summary.h"
#include "models/draft_network.h"
#include "models/family.h"
#include "speculation/report_figures.h"
#include "verify/acceptance.h"
#include "verify/measuring_text.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

/// Below this acceptance a head belongs to another model, or is stored in another way.
constexpr double kLowestAcceptance = 0.3;
/// The acceptance of a healthy head on ordinary text.
constexpr double kUsualAcceptance = 0.6;
constexpr std::int64_t kComparedRuns = 8, kComparedRows = 32;  // rows of each run
constexpr double kSameEmbedding = 0.98;                        // cosine of a row with the original's

/// Removes a half-made folder unless it was kept.
class Workplace {
 public:
  explicit Workplace(std::string folder) : folder_(std::move(folder)) {}
  ~Workplace() {
    std::error_code ignored;
    if (!kept_) fs::remove_all(folder_, ignored);
  }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::string& folder() const { return folder_; }
  void keep() { kept_ = true; }

 private:
  std::string folder_;
  bool kept_ = false;
};

Error does_not_fit(const GraftOptions& options, const std::string& what) {
  return {Code::kInvalid,
          fmt::format("the head of {} does not fit {}: {}; use the checkpoint that {} was made from",
                      options.head, options.onto, what, options.onto)};
}

Status check_sizes(const GraftOptions& options, const ModelFacts& from, const ModelFacts& onto) {
  struct Size {
    const char* name;
    std::int64_t wanted, found;
  };
  if (from.family != onto.family)
    return does_not_fit(options, fmt::format("its family is {}, not {}", from.family, onto.family));
  for (const Size& size :
       {Size{"hidden size", onto.width, from.width}, Size{"vocabulary", onto.vocabulary, from.vocabulary},
        Size{"number of attention heads", onto.heads, from.heads},
        Size{"number of key-value heads", onto.kv_heads, from.kv_heads},
        Size{"size of an attention head", onto.head_dim, from.head_dim},
        Size{"size of the MLP", onto.intermediate, from.intermediate},
        Size{"number of experts", onto.experts, from.experts}}) {
    if (size.wanted != size.found)
      return does_not_fit(options, fmt::format("its {} is {}, not {}", size.name, size.found, size.wanted));
  }
  return {};
}

const Attention* first_attention(const Program& program) {
  for (const Instruction& instruction : program.instructions()) {
    if (const auto* attend = std::get_if<Attention>(&instruction)) return attend;
  }
  return nullptr;
}

/// Checks that the head was trained with the rotary part of its model.
Status check_rotary(const GraftOptions& options, const Program& trained, const Program& grafted) {
  const Attention* a = first_attention(trained);
  const Attention* b = first_attention(grafted);
  if (a == nullptr || b == nullptr || a->inverse_frequencies == b->inverse_frequencies) return {};
  return does_not_fit(options, "its rotary frequencies differ (rope_parameters)");
}

/// The offset that the family adds to the norms of a loaded head.
float norm_offset_of(const Program& head) {
  for (const Instruction& instruction : head.instructions()) {
    if (const auto* norm = std::get_if<Norm>(&instruction)) return norm->weight.offset;
  }
  return 0;
}

/// The cosine; 1 if one row is zero: rows of tokens that were never trained.
double cosine_of(const std::vector<float>& a, const std::vector<float>& b) {
  double aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    aa += x * x, bb += y * y, ab += x * y;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 1;
}

/// The first rows of the compared runs of an embedding. Neighbours cost one request to the hub.
std::vector<std::int64_t> compared_runs(std::int64_t rows) {
  if (rows <= kComparedRuns * kComparedRows) return {0};
  std::vector<std::int64_t> runs;
  for (std::int64_t i = 0; i < kComparedRuns; ++i)
    runs.push_back(i * (rows - kComparedRows) / (kComparedRuns - 1));
  return runs;
}
std::int64_t rows_of_run(std::int64_t rows) {
  return rows <= kComparedRuns * kComparedRows ? rows : kComparedRows;
}

/// The tensors of a head's checkpoint that the checks read.
std::vector<hub::ByteRange> checked_ranges(const format::TensorView& tensor) {
  const auto size = static_cast<std::int64_t>(tensor.bytes.size());
  if (format::is_mtp_name(tensor.name)) return {{0, size}};
  if (tensor.name.find("embed_tokens.") == std::string::npos || tensor.shape.size() != 2) return {};
  const std::int64_t rows = tensor.shape.front(), row = rows > 0 ? size / rows : 0;
  std::vector<hub::ByteRange> ranges;
  for (const std::int64_t first : compared_runs(rows))
    ranges.push_back({first * row, rows_of_run(rows) * row});
  return ranges;
}

/// A head reads its target's embedding: rows of another model's would mean nothing to it.
Status check_embedding(const GraftOptions& options, const Weight& from, const Weight& onto,
                       std::vector<std::string>& notes) {
  const format::MatrixPointer theirs = matrix_of(from), ours = matrix_of(onto);
  std::vector<float> a(static_cast<std::size_t>(onto.cols)), b(a.size());
  double lowest = 1;
  for (const std::int64_t first : compared_runs(onto.rows)) {
    for (std::int64_t row = first; row < first + rows_of_run(onto.rows); ++row) {
      theirs->read(row, 1, a.data());
      ours->read(row, 1, b.data());
      lowest = std::min(lowest, cosine_of(a, b));
    }
  }
  if (lowest < kSameEmbedding && !options.force) {
    return does_not_fit(options, fmt::format("their embeddings differ (lowest cosine of a row {:.3f}), so it "
                                             "belongs to another model",
                                             lowest));
  }
  notes.push_back(fmt::format("embeddings: lowest cosine of a row {:.4f}", lowest));
  return {};
}

/// The ids of the measuring text; empty for a model without a tokenizer.
Result<std::vector<std::int32_t>> measuring_ids(const GraftOptions& options, const std::string& onto) {
  std::error_code ignored;
  if (!fs::exists(fs::path(onto) / "tokenizer.json", ignored)) return std::vector<std::int32_t>();
  FT_ASSIGN(const Tokenizer tokenizer, read_tokenizer(onto));
  std::string text(measuring_text());
  if (!options.text.empty()) {
    FT_ASSIGN(text, read_text_file(options.text, kMaxPromptBytes));
  }
  return tokenizer.encode(text, false);
}

Status check_tokenizer(const GraftOptions& options, const std::string& from, const std::string& onto) {
  std::error_code ignored;
  if (!fs::exists(fs::path(onto) / "tokenizer.json", ignored) ||
      !fs::exists(fs::path(from) / "tokenizer.json", ignored))
    return {};
  FT_ASSIGN(const Tokenizer tokenizer, read_tokenizer(from));
  FT_ASSIGN(const std::vector<std::int32_t> others, tokenizer.encode(measuring_text(), false));
  FT_ASSIGN(const Tokenizer own, read_tokenizer(onto));
  FT_ASSIGN(const std::vector<std::int32_t> wanted, own.encode(measuring_text(), false));
  if (others == wanted) return {};
  return does_not_fit(options, "their tokenizers give different ids for the same text");
}

/// Measures the drafts, and refuses a head whose drafts the model rejects.
Status check_acceptance(const GraftOptions& options, const Model& model, DrafterKind kind,
                        const std::vector<std::int32_t>& ids, GraftReport& report) {
  if (ids.empty()) {
    report.notes.push_back("acceptance was not measured: the model has no tokenizer.json");
    return {};
  }
  BackendOptions backend_options;
  backend_options.threads = options.threads;
  FT_ASSIGN(const std::unique_ptr<Backend> backend, make_backend(backend_options));
  FT_ASSIGN(const SpeculationReport found, measure_acceptance(*backend, model, ids, kind));
  report.acceptance = acceptance_by_position(found);
  report.notes.push_back(fmt::format("acceptance by position: {}; {:.2f} tokens per round",
                                     acceptance_text(found), tokens_per_round(found)));
  const double first = report.acceptance.empty() ? 0 : report.acceptance.front();
  if (first < kLowestAcceptance && !options.force) {
    return Error{Code::kInvalid,
                 fmt::format("{} accepts {:.0f}% of the first drafts of {}; at least {:.0f}% is usual: the "
                             "head belongs to another model, or its norms are stored differently; use the "
                             "head of the original, or store it anyway with --force",
                             options.onto, 100 * first, options.head, 100 * kUsualAcceptance)};
  }
  if (first < kUsualAcceptance) {
    report.notes.push_back(
        fmt::format("that is low: at least {:.0f}% is usual on such text", 100 * kUsualAcceptance));
  }
  return {};
}

/// The entries of config.json about the head, in the form of the model's own config.
nlohmann::json head_config(const nlohmann::json& from, const nlohmann::json& onto) {
  const auto section = from.find("text_config");
  const nlohmann::json& text = section != from.end() && section->is_object() ? *section : from;
  nlohmann::json layers = {{"mtp_num_hidden_layers", text.value("mtp_num_hidden_layers", 1)}};
  const auto inner = onto.find("text_config");
  const nlohmann::json& target = inner != onto.end() && inner->is_object() ? *inner : onto;
  for (const char* key : {"num_nextn_predict_layers", "num_mtp_layers"}) {  // GLM's; a conversion says 0
    if (target.contains(key)) layers[key] = 1;
  }
  nlohmann::json config = onto.contains("text_config") ? nlohmann::json{{"text_config", layers}} : layers;
  config["mtplx_mtp_norm_encoding"] = "final";
  const auto contract = from.find("mtplx_mtp_contract");
  config["mtplx_mtp_contract"] = contract != from.end() ? *contract : nlohmann::json();
  return config;
}

Result<std::string> begin_workplace(const std::string& model_directory) {
  const std::string kept = head_folder_of(model_directory);
  if (kept.empty()) return Error{Code::kIo, "there is no folder for the head; set HOME or XDG_DATA_HOME"};
  const std::string work = fmt::format("{}.part-{}", kept, ::getpid());
  std::error_code failed;
  fs::create_directories(work, failed);
  if (failed) return Error{Code::kIo, fmt::format("{} cannot be created: {}", work, failed.message())};
  return work;
}

Result<std::string> place(const GraftOptions& options, const std::string& kept, Workplace& work) {
  std::error_code failed;
  if (!options.out.empty()) {
    fs::copy_file(fs::path(work.folder()) / "mtp.safetensors", options.out,
                  options.force ? fs::copy_options::overwrite_existing : fs::copy_options::none, failed);
    if (failed)
      return Error{Code::kIo, fmt::format("{} cannot be written: {}", options.out, failed.message())};
    return options.out;
  }
  fs::remove_all(kept, failed);
  fs::rename(work.folder(), kept, failed);
  if (failed) return Error{Code::kIo, fmt::format("{} cannot be written: {}", kept, failed.message())};
  work.keep();
  return kept;
}

/// The checkpoint of the head. If it is from a foreign quantiser, such as FP8, its head is decoded.
Result<Model> load_donor(const std::string& from) {
  Result<Model> donor = load_model(from);
  if (donor.ok() || !hub::summarise_folder(from).foreign) return donor;
  FT_ASSIGN(convert::DecodedHead decoded, convert::decode_head(from));
  return make_model(from, decoded.files, std::move(decoded.checkpoint), {});
}

Result<GraftReport> graft_head(const GraftOptions& options, const std::string& from,
                               const std::string& onto) {
  if (format::is_gguf_file(onto)) {
    return Error{Code::kInvalid,
                 fmt::format("--onto: an MTP head cannot be joined to a GGUF file; convert {} first: "
                             "foretoken convert {} OUT",
                             onto, onto)};
  }
  Result<Model> donor = load_donor(from), target = load_model(onto);
  if (!donor.ok()) return model_error(donor.error());
  if (!target.ok()) return model_error(target.error());
  if (!donor->mtp_head.usable())
    return Error{Code::kInvalid,
                 fmt::format("{} has no usable head: {}", options.head, donor->mtp_head.sentence)};
  if (target->mtp_head.usable() && !options.force) {
    return Error{Code::kInvalid, fmt::format("{} already has an MTP head ({}); replace it with --force",
                                             options.onto, target->mtp_head.file)};
  }
  GraftReport report{target->name, from, "mtp", {}, 0, {}, {}};
  FT_TRY(check_sizes(options, donor->facts, target->facts));
  FT_ASSIGN(const std::vector<std::int32_t> ids, measuring_ids(options, onto));
  FT_TRY(check_tokenizer(options, from, onto));
  FT_TRY(check_embedding(options, donor->embedding, target->embedding, report.notes));

  FT_ASSIGN(const std::string folder, begin_workplace(onto));
  Workplace work(folder);
  FT_ASSIGN(const format::ConfigFiles from_files, format::ConfigFiles::read(from));
  FT_ASSIGN(const format::ConfigFiles onto_files, format::ConfigFiles::read(onto));
  FT_TRY(write_text_file((fs::path(folder) / "config.json").string(),
                         write_json(head_config(*from_files.config, *onto_files.config), 1) + "\n"));
  const float offset = norm_offset_of(*donor->mtp);
  FT_ASSIGN(const convert::WrittenHead written,
            convert::write_head(*donor->checkpoint, offset, (fs::path(folder) / "mtp.safetensors").string()));
  report.bytes = static_cast<std::int64_t>(written.bytes);
  report.notes.insert(report.notes.begin(), fmt::format("{} tensors, {}, norms {}", written.tensors,
                                                        bytes_text(static_cast<double>(written.bytes)),
                                                        offset == 0 ? "as stored" : "with 1 added"));
  LoadOptions with_head;
  with_head.head_directory = folder;
  Result<Model> grafted = load_model(onto, with_head);
  if (!grafted.ok()) return model_error(grafted.error());
  if (!grafted->mtp_head.usable()) return does_not_fit(options, grafted->mtp_head.sentence);
  FT_TRY(check_rotary(options, *donor->mtp, *grafted->mtp));
  FT_TRY(check_acceptance(options, *grafted, DrafterKind::kMtp, ids, report));
  FT_ASSIGN(report.kept_in, place(options, head_folder_of(onto), work));
  return report;
}

/// A drafter's folder: the format whose loader accepts it.
Result<GraftReport> graft_companion(const GraftOptions& options, const std::string& from,
                                    const std::string& onto, const Error& no_model) {
  if (!options.out.empty())
    return Error{Code::kInvalid, "--out is for an MTP head; a drafter stays in its folder"};
  std::string refusals;
  for (const DraftFormat* format : draft_formats()) {
    LoadOptions with_drafter;
    with_drafter.drafters = {{std::string(format->name), fs::absolute(from).string()}};
    const Result<Model> model = load_model(onto, with_drafter);
    if (!model.ok()) {
      refusals += fmt::format("; {}", model.error().message);
      continue;
    }
    GraftReport report{model->name, from, std::string(format->name), {}, 0, {}, {}};
    FT_ASSIGN(const std::vector<std::int32_t> ids, measuring_ids(options, onto));
    FT_TRY(check_acceptance(options, *model, DrafterKind(format->name), ids, report));
    FT_TRY(keep_companion(onto, with_drafter.drafters.front()));
    report.kept_in = with_drafter.drafters.front().directory;
    report.bytes = static_cast<std::int64_t>(model->drafters.front().checkpoint->total_bytes());
    return report;
  }
  return Error{Code::kInvalid, fmt::format("{} is neither a checkpoint nor a drafter of {}: {}{}",
                                           options.head, options.onto, no_model.message, refusals)};
}

}  // namespace

namespace {

/// A folder on this machine, or the head's byte ranges of a repository of the hub.
struct Giver {
  std::string directory;
  std::optional<RemoteFolder> remote;
};

Result<Giver> find_giver(const GraftOptions& options, Terminal& terminal) {
  std::error_code ignored;
  if (fs::exists(options.head, ignored) || !hub::looks_like_repository(options.head)) {
    FT_ASSIGN(std::string directory, find_source(options.head));
    return Giver{std::move(directory), std::nullopt};
  }
  // A pulled snapshot may lack just the head.
  const Result<KnownModel> known = find_known(options.head);
  if (known.ok() && !known->summary.head_file.empty() && known->summary.complete())
    return Giver{known->found.directory, std::nullopt};
  terminal.note(fmt::format("reading the MTP head and some embedding rows of {} from the hub", options.head));
  FT_ASSIGN(RemoteFolder folder, read_remote(options.head, checked_ranges, false, terminal));
  Giver giver{folder.directory(), std::nullopt};
  giver.remote.emplace(std::move(folder));
  return giver;
}

std::string ranges_note(const RemoteFolder& folder) {
  return fmt::format("{} of {} were fetched, at commit {}",
                     bytes_text(static_cast<double>(folder.skeleton.fetched_bytes)),
                     bytes_text(static_cast<double>(folder.skeleton.all_bytes)), folder.skeleton.commit);
}

}  // namespace

Result<GraftReport> graft(const GraftOptions& options, Terminal& terminal) {
  FT_ASSIGN(const std::string onto, find_model(options.onto));
  FT_ASSIGN(const Giver giver, find_giver(options, terminal));
  const std::string& from = giver.directory;
  std::error_code ignored;
  if (fs::equivalent(from, onto, ignored))
    return Error{Code::kInvalid, "--head and --onto name the same model; give the original as --head"};
  terminal.note("checking the head and measuring its acceptance on a text");
  Result<format::ConfigFiles> files = format::ConfigFiles::read(from);
  if (!files.ok()) return files.error();
  const Result<FamilyMatch> match = read_config(*files);
  const bool checkpoint = match.ok() || hub::summarise_folder(from).foreign;
  if (!checkpoint && giver.remote) {
    return Error{Code::kUnsupported, fmt::format("{} is not a checkpoint of a known family ({}); a separate "
                                                 "drafter must be fetched whole: foretoken pull {}",
                                                 options.head, match.error().message, options.head)};
  }
  if (!checkpoint) return graft_companion(options, from, onto, match.error());
  FT_ASSIGN(GraftReport report, graft_head(options, from, onto));
  if (giver.remote) report.from = options.head, report.notes.push_back(ranges_note(*giver.remote));
  return report;
}

}  // namespace ft::cli
