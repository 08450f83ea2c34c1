#include "cli/commands/hub_access.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text_layout.h"
#include "base/utf8.h"
#include "cli/library/tier.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/transfer_line.h"
#include "format/json_text.h"
#include "format/key_reader.h"
#include "hub/summary.h"
#include "models/family.h"
#include "models/head_layer.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

std::int64_t now_ms() { return steady_ns() / 1'000'000; }

class Reporter final : public hub::PullEvents {
 public:
  Reporter(Terminal& terminal, std::string name, bool events, bool quiet)
      : terminal_(terminal), name_(std::move(name)), events_(events), quiet_(quiet) {}
  ~Reporter() override { clear(); }
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void planned(const hub::PullPlan& plan) override {
    all_ = plan.bytes, missing_ = plan.missing_bytes;
    event({{"event", "plan"},
           {"repo", plan.repository},
           {"commit", plan.commit},
           {"files", plan.files},
           {"bytes", plan.bytes},
           {"missing_bytes", plan.missing_bytes}});
    if (events_ || quiet_) return;
    say(plan.missing_bytes == 0 ? fmt::format("{}: all {} files are here", plan.repository, plan.files)
                                : fmt::format("{}: {} files, {}, {} to fetch", plan.repository, plan.files,
                                              bytes_text(static_cast<double>(plan.bytes)),
                                              bytes_text(static_cast<double>(plan.missing_bytes))));
  }

  void progressed(const hub::PullProgress& progress) override {
    if (progress.bytes != bytes_) repeats_.clear();
    bytes_ = progress.bytes;
    const std::int64_t now = now_ms();
    constexpr std::int64_t kEventsMs = 500, kLinesMs = 10'000, kDrawMs = 120;
    const bool draws = terminal_.err_is_terminal() && !events_;
    if (now - drawn_ms_ < (events_ ? kEventsMs : draws ? kDrawMs : kLinesMs) || quiet_) return;
    drawn_ms_ = now;
    if (began_ms_ == 0) began_ms_ = now;
    constexpr std::int64_t kSettledMs = 3000;  // before that the rate is meaningless
    const double rate = now - began_ms_ >= kSettledMs || !draws ? progress.bytes_per_s : 0;
    if (events_) {
      event({{"event", "progress"},
             {"bytes", progress.bytes},
             {"total", progress.total},
             {"bytes_per_s", static_cast<std::int64_t>(progress.bytes_per_s)},
             {"eta_s", progress.bytes_per_s > 0
                           ? Json(static_cast<std::int64_t>(
                                 static_cast<double>(progress.total - progress.bytes) / progress.bytes_per_s))
                           : Json()},
             {"connections", progress.connections}});
      return;
    }
    const std::string line = transfer_line(
        {name_, progress.bytes, progress.total, rate, progress.connections}, terminal_.columns());
    if (!draws) {
      if (progress.bytes < progress.total) terminal_.err(line + "\n");
      return;
    }
    terminal_.err("\r\x1b[K" + line);
    visible_ = true;
  }

  void published(const std::string& path, std::int64_t bytes, const std::string& etag) override {
    event({{"event", "file"}, {"path", path}, {"bytes", bytes}, {"etag", etag}});
  }

  void repeated(const std::string& path, const std::string& why, double wait_s) override {
    event({{"event", "retry"}, {"path", path}, {"reason", why}, {"wait_s", wait_s}});
    if (events_ || quiet_) return;
    const std::string sentence = fmt::format("{}; trying again in {}", why, duration_text(wait_s));
    if (repeats_.insert(sentence).second) say(sentence);  // once for all connections
  }

  void noted(const std::string& sentence) override {
    event({{"event", "note"}, {"text", sentence}});
    if (!events_ && !quiet_) say(sentence);
  }

  void event(const Json& object) {
    if (events_) terminal_.err(write_json(object) + "\n");
  }

  void clear() {
    if (std::exchange(visible_, false)) terminal_.err("\r\x1b[K");
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  void say(const std::string& sentence) {
    clear();
    terminal_.sentence(sentence);
  }

  Terminal& terminal_;
  std::string name_;
  bool events_, quiet_, visible_ = false;
  std::int64_t all_ = 0, missing_ = 0, bytes_ = 0;
  std::int64_t drawn_ms_ = 0, began_ms_ = 0;
  std::set<std::string> repeats_;  // said since the last new byte
};

hub::Pace make_pace(const std::atomic<bool>& cancelled, int backoff_ms) {
  hub::Pace pace;
  pace.now_ms = now_ms;
  pace.cancelled = [&cancelled] { return cancelled.load(); };
  pace.sleep_ms = [&cancelled](std::int64_t ms) {
    constexpr std::int64_t kSlice = 50;
    const std::int64_t end = now_ms() + ms;
    for (std::int64_t left = ms; left > 0 && !cancelled; left = end - now_ms()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(left, kSlice)));
    }
  };
  pace.backoff_ms = backoff_ms;
  return pace;
}

/// Refuses an architecture that does not run, before gigabytes are fetched.
Status examine(const std::string& snapshot, const std::string& name) {
  const hub::ModelSummary summary = hub::summarise_folder(snapshot);
  const Assessment found = assess(summary, name, true);
  if (found.tier != Tier::kIncompatible) return {};
  return Error{Code::kUnsupported,
               fmt::format("{} does not run here: {}. Its weights were not fetched; --force fetches them",
                           name, found.reason)};
}

}  // namespace

void add_pull_flags(FlagSet& flags, PullChoice& choice) {
  flags.group("Download");
  flags.add("connections", "N", reads_int(choice.connections, 1, 16),
            "Maximum connections at once (default 8); it begins with 4");
  flags.add("piece-mb", "N", reads_int(choice.piece_mb, 1, 1024),
            "Size of the pieces of a large file in MiB (default 64)");
  flags.add("retry-wait-ms", "N", reads_int(choice.retry_wait_ms, 1, 60'000),
            "Wait before a failed request is retried; doubles each time (default 1000)");
  flags.add("ca-file", "FILE", reads_text(choice.ca_file),
            "Certificates to trust, for a network whose proxy inspects TLS (default: the system's)");
  flags.add_switch("force", choice.force, "Fetch a model of an architecture that does not run here");
}

Result<PullOutcome> fetch_model(const PullChoice& choice, bool quiet, Terminal& terminal) {
  hub::PullOptions options;
  FT_ASSIGN(options.repository, hub::parse_repository(choice.name));
  FT_ASSIGN(hub::HubSettings settings,
            hub::read_hub_settings([](const std::string& name) { return std::getenv(name.c_str()); }));
  if (!choice.ca_file.empty()) settings.ca_file = choice.ca_file;
  options.include = choice.include, options.exclude = choice.exclude, options.dry_run = choice.dry_run;
  options.repair = choice.repair;
  options.transfer.connections = choice.connections;
  options.transfer.piece_bytes = choice.piece_mb * hub::kMebibyte;
  if (!choice.force) {
    options.examine = [&](const std::string& snapshot) {
      return examine(snapshot, options.repository.text());
    };
  }
  std::atomic<bool> cancelled{false};
  const Interrupt interrupt([&cancelled] { cancelled = true; });
  const hub::Pace pace = make_pace(cancelled, choice.retry_wait_ms);
  FT_ASSIGN(const std::unique_ptr<hub::Transport> transport, hub::make_transport(settings, pace));
  Reporter reporter(terminal, options.repository.name, choice.events, quiet || !settings.progress);
  Result<hub::PullPlan> plan = hub::pull(settings, *transport, pace, reporter, options);
  reporter.clear();
  PullOutcome outcome;
  outcome.kept_bytes = reporter.bytes();
  if (!plan.ok() && plan.error().code == Code::kCancelled) {
    outcome.interrupted = true;
    return outcome;
  }
  if (!plan.ok()) return Error{plan.error().code, utf8_replace_invalid(plan.error().message)};
  outcome.plan = std::move(*plan);
  return outcome;
}

namespace {

/// The layers before the MTP head, where files hold the head as a layer; 0 for other families. The folder has
/// config.json already.
int layers_before_head(const std::string& directory) {
  const std::string path = (fs::path(directory) / "config.json").string();
  const Result<format::JsonDocument> config = format::read_json_object(path);
  if (!config.ok()) return 0;
  format::KeyReader keys(**config, path);
  const Family* family = find_family(keys.text("model_type", ""));
  if (family == nullptr || !family->head_is_a_layer) return 0;
  const int layers = keys.whole("num_hidden_layers", 0, 0, 1 << 16);
  return keys.status().ok() ? layers : 0;
}

/// Asks for the tensors of such a head by the names that other heads have.
hub::WantedRanges by_own_name(const hub::WantedRanges& wanted, const std::string& directory) {
  return [&wanted, directory, layers = std::optional<int>()](const format::TensorView& tensor) mutable {
    if (!layers) layers = layers_before_head(directory);
    if (*layers == 0) return wanted(tensor);
    format::TensorView named = tensor;
    named.name = name_of_head_layer(tensor.name, *layers);
    return named.name.empty() ? std::vector<hub::ByteRange>() : wanted(named);
  };
}

}  // namespace

RemoteFolder::~RemoteFolder() {
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

Result<RemoteFolder> read_remote(const std::string& name, const hub::WantedRanges& wanted, bool quiet,
                                 Terminal& terminal) {
  FT_ASSIGN(const hub::Repository repository, hub::parse_repository(name));
  FT_ASSIGN(const hub::HubSettings settings, hub::read_hub_settings([](const std::string& variable) {
              return std::getenv(variable.c_str());
            }));
  std::error_code failed;
  std::string made = (fs::temp_directory_path(failed) / "foretoken-remote-XXXXXX").string();
  if (failed || ::mkdtemp(made.data()) == nullptr) {
    return Error{Code::kIo, "there is no temporary folder to read the repository into; set TMPDIR"};
  }
  RemoteFolder folder(made);
  std::atomic<bool> cancelled{false};
  const Interrupt interrupt([&cancelled] { cancelled = true; });
  const hub::Pace pace = make_pace(cancelled, PullChoice().retry_wait_ms);
  FT_ASSIGN(const std::unique_ptr<hub::Transport> transport, hub::make_transport(settings, pace));
  Reporter reporter(terminal, repository.name, false, quiet);
  Result<hub::Skeleton> skeleton =
      hub::fetch_skeleton(settings, *transport, pace, reporter, repository, folder.directory(),
                          by_own_name(wanted, folder.directory()));
  if (!skeleton.ok() && skeleton.error().code == Code::kCancelled)
    return Error{Code::kCancelled, stopped_text()};
  if (!skeleton.ok()) return Error{skeleton.error().code, utf8_replace_invalid(skeleton.error().message)};
  folder.skeleton = std::move(*skeleton);
  return folder;
}

}  // namespace ft::cli
