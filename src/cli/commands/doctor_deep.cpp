#include "cli/commands/doctor_deep.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

#include "base/text_layout.h"
#include "cli/commands/loading.h"
#include "cli/commands/matrix_prompts.h"
#include "cli/commands/model_path.h"
#include "cli/library/library.h"
#include "cli/library/whole_files.h"
#include "hub/cache.h"
#include "hub/settings.h"
#include "models/synthetic/model.h"
#include "verify/matrix.h"

namespace ft::cli {
namespace {

using Kind = Finding::Kind;
namespace fs = std::filesystem;

void check_hashes(const std::string& directory, std::vector<Finding>& findings, Terminal& terminal) {
  const WholeFiles found = check_whole_files(directory, terminal);
  if (found.checked == 0) {
    findings.push_back(
        {Kind::kGood, "the model's files carry no hash to compare with (not from the hub's cache)", ""});
    return;
  }
  for (const std::string& file : found.damaged) {
    findings.push_back({Kind::kProblem, fmt::format("{} is damaged: its hash does not match its name", file),
                        "fetch it again: foretoken pull NAME --repair"});
  }
  if (found.damaged.empty())
    findings.push_back(
        {Kind::kGood, fmt::format("{} files of the model have the right hashes", found.checked), ""});
}

/// A few cells of the losslessness matrix: plain decoding against every drafter.
void check_decoding(const std::string& named, std::span<const DraftFolder> drafters,
                    const BackendOptions& backend, std::vector<Finding>& findings) {
  ModelOptions choice;
  choice.directory = named, choice.backend = backend.name;
  choice.backend_settings = backend.settings;
  choice.threads = backend.threads, choice.drafters.assign(drafters.begin(), drafters.end());
  Result<std::unique_ptr<LoadedModel>> loaded = load_with_text_if_any(choice, nullptr);
  if (!loaded.ok()) {
    findings.push_back({Kind::kProblem, loaded.error().message, "see foretoken inspect"});
    return;
  }
  MatrixOptions matrix;
  matrix.backend = backend;
  matrix.tokens = 12, matrix.size = MatrixSize::kBrief,
  matrix.threads = {backend.threads > 0 ? backend.threads : 1};
  const Result<std::vector<MatrixPrompt>> prompts = matrix_prompts(1, **loaded);
  (*loaded)->backend.reset();  // its threads would compete with the cells' threads
  const Result<MatrixReport> report =
      prompts.ok() ? run_matrix((*loaded)->model, *prompts, matrix) : Result<MatrixReport>(prompts.error());
  if (!report.ok()) {
    findings.push_back({Kind::kProblem, report.error().message, "see foretoken verify"});
  } else if (!report->identical()) {
    findings.push_back(
        {Kind::kProblem,
         fmt::format("{} of {} tokens differ from plain decoding", report->differing, report->compared),
         "use --drafter none, and attach the output of foretoken verify to an issue"});
  } else {
    findings.push_back(
        {Kind::kGood, fmt::format("{} drafted tokens equal plain decoding", report->compared), ""});
  }
}

}  // namespace

void check_hub(std::vector<Finding>& findings) {
  const Result<hub::HubSettings> settings =
      hub::read_hub_settings([](const std::string& name) { return std::getenv(name.c_str()); });
  if (!settings.ok()) {
    findings.push_back({Kind::kWarning, settings.error().message, "models cannot be downloaded until then"});
    return;
  }
  const hub::HubCache cache(settings->cache, true);
  std::error_code failed;
  fs::path place = fs::absolute(settings->cache, failed);
  while (!fs::exists(place, failed) && place.has_relative_path()) place = place.parent_path();
  if (::access(place.c_str(), W_OK) != 0) {
    findings.push_back({Kind::kWarning, fmt::format("models cannot be written to {}", settings->cache),
                        "set HF_HUB_CACHE to a folder of yours"});
    return;
  }
  findings.push_back({Kind::kGood,
                      fmt::format("models go to {}, {} free{}{}", with_tilde(settings->cache),
                                  bytes_text(static_cast<double>(cache.free_bytes())),
                                  settings->token.empty() ? "" : ", with a stored token",
                                  settings->offline ? ", offline" : ""),
                      ""});
}

void check_deeply(const std::string& model, std::span<const DraftFolder> drafters,
                  const BackendOptions& backend, std::vector<Finding>& findings, Terminal& terminal) {
  if (!is_synth_name(model)) {
    const Result<std::string> directory = find_model(model);
    if (!directory.ok()) return;  // said already
    check_hashes(*directory, findings, terminal);
  }
  const auto wrong = [](const Finding& finding) { return finding.kind == Kind::kProblem; };
  if (!drafters.empty() && std::ranges::any_of(findings, wrong)) return;  // said already
  check_decoding(model, drafters, backend, findings);
}

}  // namespace ft::cli
