// What `bench decode` prints: the same figures as a table for people and as JSON for scripts. Medians, with
// the lowest and highest beside those that others are compared with. Thread: any. Cost: linear. No errors.
#pragma once

#include <string>

#include "cli/bench_decode.h"
#include "cli/step_profile.h"

namespace ft::cli {

struct DecodeReport {
  std::string model, backend;
  int draft_vocabulary = 0;   // tokens that the head drafts among
  std::string drafted_among;  // the same in words; empty: no head
  int threads = 0;
  int prompt_tokens = 0;
  double load_ms = 0, pack_ms = 0;
  std::int64_t packed_bytes = 0, state_bytes = 0;  // state: of one sequence at the bench's context
  std::int64_t resident_bytes = 0;                 // of the process
  double others_share = 0;                         // of the processors, by other programs
  DecodeFigures figures;
  std::vector<ProfileTable> profile;  // empty: not asked for
};

std::string decode_text(const DecodeReport& report);
std::string decode_json(const DecodeReport& report);

}  // namespace ft::cli
