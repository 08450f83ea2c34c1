// The work of `tune`: plan, texts, training, comparison, keeping. Everything is in one folder,
// so that work that was stopped continues:
//   OUT/config.json, model.safetensors or mtp.safetensors, README.md  the drafter
//   OUT/work/plan.json    sizes, fixed before the first text
//   OUT/work/shards       texts and hidden rows
//   OUT/work/target.safetensors, head.safetensors, job.json, checkpoint.pt  of the training
// Owner: tune.cpp. Errors: kCancelled after Ctrl-C; what is done stays.
#pragma once

#include <atomic>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/args/options.h"
#include "cli/bench/bench_drafters.h"
#include "cli/commands/trainer.h"
#include "cli/commands/tune_kind.h"
#include "cli/commands/tune_prompts.h"
#include "tune/dataset.h"

namespace ft::cli {

struct TuneOptions {
  OutputOptions output;
  ModelOptions model;
  std::string prompts, out, python;
  TuneKind kind = *TuneKind::parse("eagle3");
  std::optional<float> hours;
  std::int64_t texts = 0, steps = 0;  // 0: as the hours allow
  int streams = 0;                    // 0: a number for the backend
  bool yes = false, keep_work = false;
};

/// Fixed before the first text is written; a run that continues reads it.
struct TunePlan {
  std::string model, kind, prompts;  // identities
  std::int64_t shards = 0, steps = 0;
  int rows = 2, length = 0, draft_vocabulary = 0, threads = 0;
  double writing_s = 0, training_s = 0;  // expected
  std::int64_t shard_tokens = 0;         // expected, not stored
};

struct TuneReport {
  std::string model, folder, kept_why;
  TuneKind kind = *TuneKind::parse("eagle3");
  bool kept = false, identical = true;
  std::int64_t texts = 0, tokens = 0, steps = 0;
  double loss = 0, covered = 0;
  std::vector<double> accepted;                           // by depth, at the end of the training
  std::vector<std::pair<std::string, double>> at_depth3;  // tokens a round of each drafter
  DrafterTable table;
};

Result<TuneReport> tune(const TuneOptions& options, const std::atomic<bool>& stopped, Terminal& terminal);

}  // namespace ft::cli
