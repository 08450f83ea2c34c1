// How often a model accepts the drafts of a drafter, by position in the draft: each passage of a text is
// continued greedily with drafts of a fixed depth. Cost: as many rounds as the continuations need.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "speculation/decoder.h"

namespace ft {

struct AcceptanceSize {
  int passages = 8;
  int prompt_tokens = 48, answer_tokens = 24;
  int depth = 3;
};

/// `ids`: the text. Errors: as Decoder, and kInvalid for a text of less than one passage.
Result<SpeculationReport> measure_acceptance(Backend& backend, const Model& model,
                                             std::span<const std::int32_t> ids, DrafterKind kind,
                                             const AcceptanceSize& size = {});

/// Accepted of drafted at each position: "0.97 0.95 0.92".
std::string acceptance_text(const SpeculationReport& report);

}  // namespace ft
