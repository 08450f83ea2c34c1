// The calibration cache: the costs of rounds on this machine (sched/calibration/calibrate.h), kept in a
// small file from one start to the next, so that a start need not measure again. The cost model begins
// with it; the rounds of a run correct it as usual. It can change how many tokens are drafted, and how
// many workers small steps have, never an answer. A file is used if it is whole (checksum, plausible
// numbers), has the same key and is younger than kMaxAge. Otherwise costs are measured and the file is
// replaced in one step (rename), so readers see a whole file or none. If costs at the end of a run differ
// from the file by a factor of kFar, the run removes the file and the next start measures: the first
// measurement was disturbed, or the machine has changed. Thread: the engine's. Cost: one small file, or a
// calibration. Errors: a bad or unwritable file is a line in the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "sched/calibration/worker_choice.h"
#include "speculation/decoder.h"

namespace ft {

struct CalibrationCacheOptions {
  std::string path;                     // its folder is made when needed; empty: measure at every start
  std::string key;                      // fingerprint (base/checksum.h) of all that costs depend on
  std::function<double()> now_ms = {};  // the clock of measurements; empty: the machine's steady one
};

class CalibrationCache {
 public:
  static constexpr auto kMaxAge = std::chrono::days(30);
  static constexpr std::size_t kMaxBytes = 4096;  // of a file
  static constexpr double kFar = 1.5;

  explicit CalibrationCache(CalibrationCacheOptions options) : options_(std::move(options)) {}

  /// Gives the decoder its costs, from the file or by measuring. No slot may be open.
  void learn(Decoder& decoder);
  /// The source of learn()'s costs: "remembered" (the file), "measured", "disturbed" (measured while other
  /// programs held the machine up: partly trusted, not kept), or "guessed" if measuring failed.
  const char* source() const { return source_; }
  /// At the end of a run: decides whether the next start must measure.
  void discard_if_far(const CostModel& costs) const;
  /// The measurements that chose the number of workers of small steps.
  const WorkerChoice& workers() const { return workers_; }

 private:
  bool load(Decoder& decoder);

  CalibrationCacheOptions options_;
  CostFigures begun_with_;
  WorkerChoice workers_;
  bool kept_ = false;  // the file holds begun_with_
  const char* source_ = "guessed";
};

/// The contents of a file.
struct RememberedCosts {
  CostFigures figures;
  WorkerChoice workers;  // and the times of all choices
};
/// A file's text. `now_s`: seconds since 1970.
std::string cost_text(const RememberedCosts& costs, const std::string& key, std::int64_t now_s);
/// kCorrupt if it is not a complete text of cost_text(), kNotFound if it has another key or is too old.
Result<RememberedCosts> read_calibration(std::string_view text, const std::string& key, std::int64_t now_s);

}  // namespace ft
