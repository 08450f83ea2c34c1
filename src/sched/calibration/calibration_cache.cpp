#include "sched/calibration/calibration_cache.h"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>
#include <unistd.h>
#include <utility>

#include "base/checksum.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "base/replace_file.h"
#include "sched/calibration/calibrate.h"

namespace ft {
namespace {

/// Version of the file's format and of the measurements; must be raised when either changes.
constexpr std::string_view kFirstLine = "foretoken costs 3\n";

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Removes `before`, a number and the character after it from the front of the text.
template <class Number>
bool take(std::string_view& text, std::string_view before, Number& number, char after) {
  if (!text.starts_with(before)) return false;
  const char* end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data() + before.size(), end, number);
  if (failure != std::errc() || at == end || *at != after) return false;
  text.remove_prefix(static_cast<std::size_t>(at - text.data()) + 1);
  return true;
}

Error damaged(const char* what) { return Error{Code::kCorrupt, what}; }

}  // namespace

std::string cost_text(const RememberedCosts& costs, const std::string& key, std::int64_t now_s) {
  const CostFigures& figures = costs.figures;
  std::string text =
      fmt::format("{}key {}\nwritten {}\nrows {}\ndraft {}\nweights {}\nworkers {} {}\n", kFirstLine, key,
                  now_s, fmt::join(std::span(figures.verify_ms).subspan(1), " "), figures.draft_ms,
                  fmt::join(figures.draft_weight, " "), costs.workers.workers, costs.workers.tried.size());
  for (const WorkerChoice::Tried& each : costs.workers.tried)
    text += fmt::format("of {} {}\n", each.workers, each.ms);
  return text + fmt::format("checksum {:016x}\n", checksum(std::as_bytes(std::span(text))));
}

Result<RememberedCosts> read_calibration(std::string_view text, const std::string& key, std::int64_t now_s) {
  const std::string_view whole = text;
  if (!text.starts_with(kFirstLine)) return damaged("it is not a calibration file of this version");
  text.remove_prefix(kFirstLine.size());
  const std::size_t line = text.find('\n');
  if (!text.starts_with("key ") || line == std::string_view::npos) return damaged("it has no key");
  const std::string found_key(text.substr(4, line - 4));
  text.remove_prefix(line + 1);
  RememberedCosts costs;
  CostFigures& figures = costs.figures;
  std::int64_t written_s = 0;
  bool good = take(text, "written ", written_s, '\n');
  for (std::size_t rows = 1; rows < figures.verify_ms.size(); ++rows) {
    const bool last = rows + 1 == figures.verify_ms.size();
    good = good && take(text, rows == 1 ? "rows " : "", figures.verify_ms[rows], last ? '\n' : ' ');
  }
  good = good && take(text, "draft ", figures.draft_ms, '\n');
  for (std::size_t i = 0; i < figures.draft_weight.size(); ++i) {
    const bool last = i + 1 == figures.draft_weight.size();
    good = good && take(text, i == 0 ? "weights " : "", figures.draft_weight[i], last ? '\n' : ' ');
  }
  std::size_t tried = 0;
  good = good && take(text, "workers ", costs.workers.workers, ' ') && take(text, "", tried, '\n') &&
         tried <= WorkerChoice::kMaxTried;
  for (std::size_t i = 0; good && i < tried; ++i) {
    WorkerChoice::Tried& each = costs.workers.tried.emplace_back();
    good = take(text, "of ", each.workers, ' ') && take(text, "", each.ms, '\n');
  }
  // This checks numbers and checksum at once: every byte is as this program writes it.
  if (!good || cost_text(costs, found_key, written_s) != whole) return damaged("it is damaged");
  if (!figures.plausible() || !costs.workers.plausible())
    return damaged("its numbers are not plausible costs");
  if (found_key != key) return Error{Code::kNotFound, "it is from another model, backend or program"};
  constexpr std::int64_t kMax = std::chrono::seconds(CalibrationCache::kMaxAge).count();
  if (written_s > now_s || written_s < now_s - kMax)
    return Error{Code::kNotFound, "its date is too old, or in the future"};
  return costs;
}

bool CalibrationCache::load(Decoder& decoder) {
  const Result<MappedFile> file = MappedFile::open(options_.path);
  if (!file.ok()) {
    if (file.error().code != Code::kNotFound) log_warn(file.error().message);
    return false;
  }
  const std::span<const std::byte> bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Result<RememberedCosts> costs = bytes.size() > kMaxBytes
                                      ? damaged("it is too large for a calibration file")
                                      : read_calibration(text, options_.key, seconds_now());
  if (!costs.ok()) {
    const std::string line = fmt::format("{}: {}; calibrating again", options_.path, costs.error().message);
    costs.error().code == Code::kCorrupt ? log_warn(line) : log_info(line);
    return false;
  }
  decoder.costs().restore(costs->figures);
  workers_ = std::move(costs->workers);
  decoder.backend().use_workers(workers_.workers);
  return true;
}

void CalibrationCache::learn(Decoder& decoder) {
  const bool keeps = !options_.path.empty();
  kept_ = keeps && load(decoder);
  const Calibrated fresh =
      kept_ ? Calibrated{} : calibrate(decoder, options_.now_ms ? options_.now_ms : steady_ms);
  if (!kept_) workers_ = fresh.workers;
  const bool measured = fresh.measured;
  source_ = kept_ ? "remembered" : !measured ? "guessed" : fresh.steady ? "measured" : "disturbed";
  begun_with_ = decoder.costs().figures();
  if (!keeps || !measured || !begun_with_.plausible()) return;
  if (!fresh.steady) {
    log_info("the machine was busy during calibration; its costs are not stored, and rounds correct them");
    return;
  }
  const Status written =
      replace_file(options_.path, cost_text({begun_with_, workers_}, options_.key, seconds_now()));
  kept_ = written.ok();
  if (!kept_) log_info(written.error().message + "; every start calibrates");
}

void CalibrationCache::discard_if_far(const CostModel& costs) const {
  if (!kept_ || !costs.figures().far_from(begun_with_, kFar)) return;
  ::unlink(options_.path.c_str());
  log_info(options_.path +
           ": calibration was off by > 1.5x and was discarded; the next start measures again");
}

}  // namespace ft
