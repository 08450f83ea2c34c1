// `foretoken doctor`: checks the machine, the backend and the model, and shows how to fix problems.
#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backends/registry.h"
#include "base/text_file.h"
#include "base/text_layout.h"
#include "base/thread_pool.h"
#include "cli/args/option_flags.h"
#include "cli/commands/doctor_bundle.h"
#include "cli/commands/doctor_deep.h"
#include "cli/commands/doctor_drafters.h"
#include "cli/commands/doctor_threads.h"
#include "cli/commands/inspection.h"
#include "cli/commands/model_path.h"
#include "cli/commands/packed_weights_folder.h"
#include "cli/commands/subcommands.h"
#include "cli/library/tier.h"
#include "cli/terminal/report_json.h"
#include "models/model.h"

namespace ft::cli {
namespace {

using Kind = Finding::Kind;

constexpr std::int64_t kDoctorContext = 4096;  // tokens that the memory for pictures covers

struct DoctorOptions {
  OutputOptions output;
  std::string model, bundle;
  BackendOptions backend;
  std::vector<DraftFolder> drafters;
  bool no_probe = false, deep = false;
};

/// Checks that the model exists, loads and can draft.
void check_model(const std::string& named, std::span<const DraftFolder> drafters, const Backend* backend,
                 std::vector<Finding>& findings) {
  const Result<std::string> directory = find_model(named);
  if (!directory.ok()) {
    findings.push_back({Kind::kProblem, directory.error().message,
                        "clone the project again, or name a model with --model DIR"});
    return;
  }
  const Result<Model> model = load_model(*directory);
  if (!model.ok()) {
    findings.push_back({Kind::kProblem, model.error().message, "download the model again"});
    return;
  }
  const ModelFacts& facts = model->facts;
  const std::string experts =
      facts.experts == 0 ? ""
                         : fmt::format(", {} experts, {} per token: {} of its {} are read", facts.experts,
                                       facts.experts_per_token,
                                       bytes_text(static_cast<double>(model->target.bytes_per_step())),
                                       bytes_text(static_cast<double>(model->target.bytes_held())));
  findings.push_back({Kind::kGood,
                      fmt::format("the model {} loads ({}, {}{})", model->directory, facts.family,
                                  facts.quantisation, experts),
                      ""});
  if (backend != nullptr) {
    const Inspection seen =
        inspect(*model, Machine{}, std::min<std::int64_t>(facts.context, kDoctorContext), *backend, false);
    findings.push_back(
        {Kind::kGood,
         (seen.images_problem.empty() ? "images are read by a vision tower of " : "pictures: ") +
             tower_text(seen),
         ""});
  }
  if (model->mtp_head.usable()) {
    findings.push_back({Kind::kGood, "the MTP head can draft from " + draft_vocabulary_text(*model), ""});
  } else if (may_have_head(facts.family)) {
    findings.push_back({Kind::kWarning, model->mtp_head.sentence,
                        "n-gram lookup drafts meanwhile; foretoken graft restores the head"});
  }
  const std::size_t before = findings.size();
  check_drafters(*directory, drafters, findings);
  if (findings.size() == before && !may_have_head(facts.family)) {
    findings.push_back(
        {Kind::kGood,
         "n-gram lookup drafts: models of this family have no MTP head, and no drafter is next "
         "to this one",
         ""});
  }
  if (backend != nullptr) check_workers(*model, *backend, std::time(nullptr), findings);
}

void show(const Machine& machine, const std::vector<Finding>& findings, const std::string& backend,
          const std::optional<GpuMemory>& card, Terminal& terminal) {
  const auto size = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::vector<std::vector<std::string>> rows = {
      {"system", machine.system},
      {"processor", machine.processor},
      {"features", machine.features.empty() ? "none used by the kernels"
                                            : fmt::format("{}", fmt::join(machine.features, " "))},
      {"cores", machine.cpu_limit > 0
                    ? fmt::format("{}, limited to {:.3g}", machine.logical_cores, machine.cpu_limit)
                    : std::to_string(machine.logical_cores)},
      {"memory",
       fmt::format(
           "{}, {} free{}", size(machine.memory_total), size(machine.free_bytes()),
           machine.memory_limit > 0 ? fmt::format(", limited to {}", size(machine.memory_limit)) : "")},
      {"huge pages", machine.huge_pages.empty() ? "not readable" : machine.huge_pages},
      {"governor", machine.power.governor.empty() ? "not readable" : machine.power.governor},
      {"clock", clock_text(machine.power)},
      {"backend", backend},
  };
  if (machine.read_gb_per_s > 0) {
    rows.push_back({"read speed",
                    fmt::format("{:.1f} GB/s: plain decoding of a 1 GB model reaches at most {:.0f} tokens/s",
                                machine.read_gb_per_s, machine.read_gb_per_s)});
  }
  if (card) {
    std::string text = size(card->free_bytes) + " free";
    if (card->copy_gb_per_s > 0) text += fmt::format(", copies {:.0f} GB/s", card->copy_gb_per_s);
    rows.push_back({"GPU memory", text});
  }
  terminal.wraps();
  terminal.out(table_text(rows));
  terminal.out("\n");
  for (const Finding& finding : findings) {
    const bool good = finding.kind == Kind::kGood;
    terminal.out(good ? Style::kGood : Style::kBad, good                             ? "good     "
                                                    : finding.kind == Kind::kWarning ? "warning  "
                                                                                     : "problem  ");
    terminal.out(finding.what + "\n");
    if (!finding.repair.empty()) terminal.out(fmt::format("         fix: {}\n", finding.repair));
  }
}

Result<int> run_doctor(const DoctorOptions& options, Terminal& terminal) {
  Machine machine = read_machine();
  const std::vector<Core> cores = worker_cores();
  const int threads = options.backend.threads > 0 ? options.backend.threads : usual_workers();
  std::vector<Finding> findings = check_machine(machine, threads);
  std::string backend = "none";
  std::optional<GpuMemory> card;
  const auto made = make_backend(options.backend);
  if (made.ok()) {
    backend = (*made)->describe();
    if ((*made)->name() == gpu_backend())
      card = {(*made)->limits({}).memory_bytes, options.no_probe ? 0 : (*made)->measured_bandwidth_gb_s()};
    const char* why = !options.backend.settings.all().empty() ? "as requested"
                      : (*made)->name() == "cuda"  ? "this machine has an NVIDIA GPU and its driver"
                      : (*made)->name() == "metal" ? "its GPU passed the self-test"
                      : (*made)->name() == "cpu"   ? "the widest instruction set of this processor"
                                                   : "works on every processor";
    findings.push_back({Kind::kGood, fmt::format("the backend works: {} ({})", backend, why), ""});
    if ((*made)->name() == "cpu")
      findings.push_back(threads_finding(options.backend.threads, threads, allowed_cores(), cores));
  } else {
    findings.push_back(
        {Kind::kProblem, made.error().message, "use --backend ref, which works on every processor"});
  }
  if (options.backend.name == "auto" && backend.starts_with("cpu")) {
    BackendOptions gpu = options.backend;
    gpu.name = gpu_backend(), gpu.settings = gpu.settings.optional();
    if (const auto other = make_backend(gpu); !other.ok())
      findings.push_back({Kind::kGood, "no GPU is used: " + other.error().message, ""});
  }
  if (!options.no_probe) machine.read_gb_per_s = probe_read_bandwidth(threads);
  check_model(options.model, options.drafters, made.ok() ? made->get() : nullptr, findings);
  check_hub(findings);
  if (options.deep) check_deeply(options.model, options.drafters, options.backend, findings, terminal);
  for (Finding& finding : check_throttling(machine.power, power_facts()))
    findings.push_back(std::move(finding));
  bool good = true;
  for (const Finding& finding : findings) good = good && finding.kind != Kind::kProblem;
  if (options.output.json) {
    terminal.out(doctor_json(machine, findings, backend, card) + "\n");
  } else {
    show(machine, findings, backend, card, terminal);
  }
  if (!options.bundle.empty()) {
    const std::string text = bundle_text(machine, findings, backend, options.model);
    if (!options.output.json) terminal.out("\n" + text);
    FT_TRY(write_text_file(options.bundle, text));
    terminal.note(fmt::format("wrote {}, exactly as shown above; read it before you attach it to an issue",
                              options.bundle));
  }
  return good ? 0 : 1;
}

}  // namespace

Command doctor_command() {
  auto options = std::make_shared<DoctorOptions>();
  options->backend.kernel_folder = kernel_folder();
  Command command;
  command.name = "doctor";
  command.summary = "Check the machine, the backend and the model, and show how to fix problems";
  command.examples =
      "  foretoken doctor\n"
      "  foretoken doctor --model ~/models/Qwen3.5-4B-4bit\n"
      "  foretoken doctor --drafter eagle3=DIR          whether this drafter fits the model\n"
      "  foretoken doctor --deep                        also hashes the model's files and decodes with them\n"
      "  foretoken doctor --bundle report.json          a report for an issue, without personal data\n"
      "  foretoken doctor --isa avx2 --json\n";
  command.flags.group("Checks");
  add_model_folder_flag(command.flags, options->model);
  command.flags.add_list("drafter", "NAME=DIR", reads_draft_folder(options->drafters),
                         "Also check this drafter: eagle3=DIR, dflash=DIR, assistant=DIR or model=DIR "
                         "(repeatable; default: those "
                         "in the model's folder and the grafted one)");
  command.flags.add("backend", "NAME", reads_text(options->backend.name),
                    "Backend: auto (default: a GPU that runs, else cpu), cpu, cuda, metal or ref");
  add_backend_settings(command.flags, options->backend.settings);
  command.flags
      .add("threads", "N", reads_int(options->backend.threads, 0, 1024),
           "Worker threads; 0 (default): one per core")
      .letter = "t";
  command.flags.add_switch("no-probe", options->no_probe, "Skip the bandwidth test");
  command.flags.add_switch("deep", options->deep,
                           "Also check the model's files against their hashes, and decode");
  command.flags
      .add("bundle", "FILE", reads_file_name(options->bundle),
           "Write a report for an issue: versions, machine, findings, model; without your paths, names, "
           "tokens or texts")
      .setting = false;
  return bind_options(std::move(command), std::move(options), run_doctor);
}

}  // namespace ft::cli
