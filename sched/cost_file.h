// What rounds cost on this machine (sched/calibrate.h), remembered from one start to the next in a small
// file, so that a start need not measure it again. It is where the model of costs begins; the rounds of a run
// correct it as ever. It can change how many tokens are drafted, never an answer. A file counts if it is
// whole (checksum, numbers that can be costs), was written for the same key and less than kMostAge ago; else
// costs are measured anew and it is replaced in one step (rename), so readers see a whole file or none. A run
// at whose end costs are far from what the file says (kFar times: the first measurement was disturbed, or the
// machine has changed) removes it, so that the next start measures. Owner: the engine. Thread: the engine's.
// Cost: one small file, or a measurement. Errors: none; what is wrong with a file, or that it cannot be
// written, is a line in the log.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "spec/decoder.h"

namespace ft {

struct CostFileOptions {
  std::string path;  // its folder is made when needed; empty: costs are measured at every start
  std::string key;   // fingerprint (base/checksum.h) of all that costs depend on
};

class CostFile {
 public:
  static constexpr auto kMostAge = std::chrono::days(30);
  static constexpr std::size_t kMostBytes = 4096;  // of a file
  static constexpr double kFar = 1.5;

  explicit CostFile(CostFileOptions options) : options_(std::move(options)) {}

  /// Gives the decoder its costs, from the file or by measuring. While no slot is open.
  void learn(Decoder& decoder);
  /// Where learn() has them from: "remembered" in the file, "measured", or "guessed" as that failed.
  const char* source() const { return source_; }
  /// At the end of a run: whether the next start should measure.
  void judge(const CostModel& costs) const;

 private:
  bool recall(CostModel& costs) const;

  CostFileOptions options_;
  CostFigures begun_with_;
  bool kept_ = false;  // the file says begun_with_
  const char* source_ = "guessed";
};

/// A file's text. `now_s`: seconds since 1970.
std::string cost_text(const CostFigures& figures, const std::string& key, std::int64_t now_s);
/// kCorrupt if that is no whole text of cost_text(), kNotFound if it is one of another key or too old.
Result<CostFigures> read_costs(std::string_view text, const std::string& key, std::int64_t now_s);

}  // namespace ft
