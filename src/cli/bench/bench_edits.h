// `foretoken bench edits`: versions of one file, each written in a separate request, as an agent does. It
// compares no drafter, lookup in each request's own text, recall of the earlier requests, and all drafters
// with and without such a memory; interleaved.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cli/bench/bench_measure.h"

namespace ft::cli {

/// The results of one variant over all versions.
struct EditFigures {
  std::string name;
  DrafterKind drafter;
  bool remembers = false;  // a request may draft from those before it
  Speed speed;
  SpeculationReport speculation;
  bool identical = true;  // the tokens are those without a drafter
};

struct EditReport {
  std::string model, backend;
  int versions = 0;
  std::vector<EditFigures> ways;  // none first
};

/// The requests, one text for each version.
std::vector<std::string> edit_requests();
/// The ways of drafting, without figures.
std::vector<EditFigures> edit_ways();

/// Adds all versions in every variant; `turn` rotates the order. The engine has memory for earlier requests.
/// Each variant begins with an empty memory: `owner` counts up and is never reused.
Status add_versions(Engine& engine, const LoadedModel& loaded, std::span<const BenchCase> versions,
                    std::size_t turn, std::uint64_t& owner, const std::atomic<bool>& stopped,
                    EditReport& report);

std::string edits_text(const EditReport& report);
std::string edits_json(const EditReport& report);

}  // namespace ft::cli
