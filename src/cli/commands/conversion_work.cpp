#include "cli/commands/conversion_work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <memory>

#include "backends/registry.h"
#include "base/text_file.h"
#include "base/text_layout.h"
#include "cli/commands/loading.h"
#include "cli/commands/model_path.h"
#include "cli/library/library.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/report_json.h"
#include "convert/comparison.h"
#include "verify/acceptance.h"
#include "verify/measuring_text.h"
#include "verify/text_quality.h"

namespace ft::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// "1.2 of 8.4 GB, 310 MB/s"
std::string progress_text(std::uint64_t done, std::uint64_t all, double seconds) {
  return fmt::format("{} of {}, {}/s", bytes_text(static_cast<double>(done)),
                     bytes_text(static_cast<double>(all)),
                     bytes_text(static_cast<double>(done) / std::max(seconds, 1e-3)));
}

}  // namespace

void add_folder_flags(FlagSet& flags, ConversionFlags& options, const char* value_name,
                      const char* from_help) {
  flags.group("Model");
  flags.positional = "from", flags.second_positional = "out";
  flags.add("from", value_name, reads_text(options.from), from_help).setting = false;
  Flag& out = flags.add("out", "DIR", reads_text(options.out), "Folder to write");
  out.letter = "o", out.setting = false;
}

void add_work_flags(FlagSet& flags, ConversionFlags& options) {
  flags.group("Work");
  flags.add("threads", "N", reads_int(options.threads, 0, 256), "Threads; 0 (default): one per core").letter =
      "t";
  flags.add_switch("plan", options.plan_only, "Show the sizes without writing anything");
  flags.add_switch("force", options.force, "Overwrite a model in the folder");
}

Status check_folders(const ConversionFlags& flags, const std::string& command) {
  if (!flags.from.empty() && !flags.out.empty()) return {};
  return Error{Code::kInvalid, command + " needs two arguments: the model to read and the folder to write"};
}

Result<std::string> find_source(const std::string& named) {
  std::error_code ignored;
  if (named.ends_with(".gguf") && std::filesystem::is_regular_file(named, ignored)) return named;
  if (std::filesystem::exists(named, ignored) || looks_like_path(named)) return find_model(named);
  // The model may not run unconverted: conversion is for such models.
  FT_ASSIGN(const KnownModel known, find_known(named));
  if (known.assessment.tier == Tier::kIncomplete) {
    return Error{Code::kCorrupt, fmt::format("{} is incomplete: {}; {}", named, known.assessment.reason,
                                             known.assessment.next)};
  }
  return known.found.directory;
}

Result<ConversionReport> run_conversion(const convert::Source& source, const convert::Recipe& recipe,
                                        const ConversionFlags& flags, Terminal& terminal) {
  FT_ASSIGN(const convert::Plan plan, convert::make_plan(source, recipe));
  ConversionReport report;
  report.directory = flags.out, report.recipe = recipe.name, report.source_format = source.format;
  report.source_bytes = static_cast<std::int64_t>(plan.source_bytes);
  report.bytes = static_cast<std::int64_t>(plan.bytes);
  report.bits_per_weight = static_cast<double>(plan.bytes) * 8 / static_cast<double>(plan.parameters);
  report.notes = plan.notes;
  if (flags.plan_only) return report;
  const Clock::time_point start = Clock::now();
  std::atomic<bool> stopped{false};
  Result<convert::ConversionResult> result = [&] {
    const Interrupt interrupt([&stopped] { stopped = true; });
    std::unique_ptr<Progress> bar;
    const convert::ConversionOptions options{flags.out, flags.threads, flags.force};
    return convert::convert_model(source, recipe, plan, options, [&](std::uint64_t done, std::uint64_t all) {
      if (!bar) bar = std::make_unique<Progress>(terminal, "writing", static_cast<std::int64_t>(all));
      bar->set(static_cast<std::int64_t>(done), progress_text(done, all, seconds_since(start)));
      return !stopped.load();
    });
  }();
  if (!result.ok()) return result.error();
  report.written = true, report.files_kept = result->kept;
  report.seconds = seconds_since(start);
  return report;
}

namespace {

/// One side of the comparison.
struct ConvertedSide {
  TextQuality text;
  SpeculationReport head;  // no rounds: the model has no MTP head
};

Result<ConvertedSide> measure_side(const std::string& directory, const std::vector<std::int32_t>& ids,
                                   int threads, TextMeter& meter, bool is_reference) {
  Result<Model> model = load_model(directory);
  if (!model.ok()) return model_error(model.error());
  BackendOptions options;
  options.threads = threads;
  options.settings = {{"activations", 16}};  // rounded activations would hide what rounded weights do
  FT_ASSIGN(const std::unique_ptr<Backend> backend, make_backend(options));
  ConvertedSide side;
  if (is_reference) {
    FT_ASSIGN(side.text, meter.take_reference(*backend, *model));
  } else {
    FT_ASSIGN(side.text, meter.measure(*backend, *model));
  }
  if (model->mtp) {
    FT_ASSIGN(side.head, measure_acceptance(*backend, *model, ids, DrafterKind::kMtp));
  }
  return side;
}

std::string or_none(const SpeculationReport& head) {
  return head.rounds == 0 ? "no head" : acceptance_text(head);
}

/// Perplexity and acceptance before and after. A figure that cannot be measured is reported as missing.
Status compare_quality(const convert::Source& source, const ConversionFlags& flags,
                       const std::string& text_file, ConversionReport& report) {
  std::error_code ignored;
  if (source.quantised || !std::filesystem::is_directory(source.directory, ignored)) {
    report.notes.push_back("perplexity was not compared: the source does not run as it is");
    return {};
  }
  const Result<Tokenizer> tokenizer = Tokenizer::load(flags.out);
  if (!tokenizer.ok()) {
    report.notes.push_back("perplexity was not compared: " + tokenizer.error().message);
    return {};
  }
  std::string text(measuring_text());
  if (!text_file.empty()) {
    FT_ASSIGN(text, read_text_file(text_file, kMaxPromptBytes));
  }
  FT_ASSIGN(const std::vector<std::int32_t> ids, tokenizer->encode(text, false));
  constexpr std::int64_t kMaxTokens = 4096, kWindow = 512;
  TextMeter meter(ids, kMaxTokens, kWindow);
  FT_ASSIGN(const ConvertedSide before, measure_side(source.directory, ids, flags.threads, meter, true));
  FT_ASSIGN(const ConvertedSide after, measure_side(flags.out, ids, flags.threads, meter, false));
  report.quality = QualityReport{before.text.tokens,    before.text.perplexity,
                                 after.text.perplexity, after.text.divergence,
                                 before.head,           after.head};
  report.notes.push_back(
      fmt::format("perplexity on {} tokens: {:.4f} before, {:.4f} after; divergence {:.5f}",
                  before.text.tokens, before.text.perplexity, after.text.perplexity, after.text.divergence));
  report.notes.push_back(
      fmt::format("acceptance by position: {} before, {} after", or_none(before.head), or_none(after.head)));
  return {};
}

}  // namespace

Status verify_conversion(const convert::Source& source, const convert::Recipe& recipe,
                         const ConversionFlags& flags, const std::string& text_file,
                         ConversionReport& report) {
  FT_ASSIGN(const convert::Plan plan, convert::make_plan(source, recipe));
  FT_ASSIGN(const convert::Comparison found, convert::compare(plan, flags.out, flags.threads, {}));
  if (!found.changed.empty()) {
    return Error{Code::kCorrupt,
                 fmt::format("{}: {} tensor(s) differ from the source, the first is {}; write the "
                             "folder again with --force",
                             flags.out, found.changed.size(), found.changed.front())};
  }
  struct Summary {
    int tensors = 0;
    double error = 0;
    const convert::TensorError* worst = nullptr;
  };
  std::map<std::string, Summary> formats;
  for (const convert::TensorError& error : found.quantised) {
    report.tensors.push_back({error.name, format::quantisation_text(error.q), error.cosine, error.relative});
    Summary& summary = formats[format::quantisation_text(error.q)];
    ++summary.tensors, summary.error += error.relative;
    if (summary.worst == nullptr || error.cosine < summary.worst->cosine) summary.worst = &error;
  }
  for (const auto& [name, summary] : formats) {
    report.notes.push_back(fmt::format("{}: {} tensors, mean error {:.2f}%, lowest cosine {:.6f} ({})", name,
                                       summary.tensors, 100 * summary.error / summary.tensors,
                                       summary.worst->cosine, summary.worst->name));
  }
  report.notes.push_back(fmt::format("{} tensors equal the source byte for byte", found.kept));
  return compare_quality(source, flags, text_file, report);
}

void show_conversion(const ConversionReport& report, bool json, Terminal& terminal) {
  if (json) {
    terminal.out(conversion_json(report) + "\n");
    return;
  }
  const auto size = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  std::string text = fmt::format("{}: {}, {} from {} of {}, {:.2f} bits a weight", report.directory,
                                 report.recipe, size(report.bytes), size(report.source_bytes),
                                 report.source_format, report.bits_per_weight);
  text +=
      report.written ? fmt::format(", in {:.1f} s\n", report.seconds) : "; nothing was written (--plan)\n";
  if (report.files_kept > 0)
    text += fmt::format("{} complete file(s) of an earlier run were kept\n", report.files_kept);
  for (const std::string& note : report.notes) text += note + "\n";
  terminal.wraps();
  terminal.out(text);
}

}  // namespace ft::cli
