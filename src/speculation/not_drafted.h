// Why nothing was drafted for a request: one list for reports, for requests that require speculation and for
// the counters.
#pragma once

#include <optional>
#include <string>

#include "drafters/registry.h"

namespace ft {

enum class NotDrafted {
  kDrafterNone,
  kDepthZero,
  kUnavailable,   // the model cannot have the drafter; Model says why
  kNoRound,       // it ended before its first round
  kFailed,        // the drafter failed
  kNothingFound,  // no draft was found
  kWouldNotPay,
};

/// The reason that the request's options alone give, if any. `problem`: drafter_problem() of its drafter.
std::optional<NotDrafted> ruled_out(DrafterKind drafter, int depth, const std::string& problem);

/// One clause. `problem`: as above.
std::string not_drafted_text(NotDrafted why, const std::string& problem);

}  // namespace ft
