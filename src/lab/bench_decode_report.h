// The figures of `bench decode` as a table and as JSON: medians, with minimum and maximum for compared
// figures.
#pragma once

#include <string>

#include "lab/bench_decode.h"
#include "lab/step_profile.h"

namespace ft {

struct DecodeReport {
  std::string model, backend;
  int draft_vocabulary = 0;   // draft vocabulary size
  std::string drafted_among;  // the same as text; empty: no MTP head
  int threads = 0;
  int prompt_tokens = 0;
  double load_ms = 0, pack_ms = 0;
  std::int64_t packed_bytes = 0, state_bytes = 0;  // state: of one sequence at the context of the bench
  std::int64_t resident_bytes = 0;                 // of the process
  double others_share = 0;                         // share of the processors used by other programs
  DecodeFigures figures;
  std::vector<ProfileTable> profile;  // empty: not requested
};

/// Title of a table: program, rows and number of steps.
std::string table_title(const ProfileTable& table);
std::string decode_text(const DecodeReport& report);
std::string decode_json(const DecodeReport& report);

}  // namespace ft
