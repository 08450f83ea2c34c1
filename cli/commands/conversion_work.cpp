#include "cli/commands/conversion_work.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <memory>

#include "cli/commands/model_path.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/report_json.h"
#include "convert/comparison.h"

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

void add_work_flags(FlagSet& flags, ConversionFlags& options) {
  flags.group("Work");
  flags.add("threads", "N", reads_int(options.threads, 0, 256), "Threads; 0 (default): one per core").letter =
      "t";
  flags.add_switch("plan", options.plan_only, "Show the sizes; write nothing");
  flags.add_switch("force", options.force, "Replace a model that is in the folder");
}

Status check_folders(const ConversionFlags& flags, const std::string& command) {
  if (!flags.from.empty() && !flags.out.empty()) return {};
  return Error{Code::kInvalid, command + " needs two places: the model to read and the folder to write"};
}

Result<std::string> find_source(const std::string& named) {
  std::error_code ignored;
  if (named.ends_with(".gguf") && std::filesystem::is_regular_file(named, ignored)) return named;
  return find_model(named);
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

Status verify_conversion(const convert::Source& source, const convert::Recipe& recipe,
                         const ConversionFlags& flags, ConversionReport& report) {
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
  return {};
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
    text += fmt::format("{} file(s) of an earlier run were complete and are kept\n", report.files_kept);
  for (const std::string& note : report.notes) text += note + "\n";
  terminal.out(text);
}

}  // namespace ft::cli
