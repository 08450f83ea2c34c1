#include "speculation/not_drafted.h"

namespace ft {

std::optional<NotDrafted> ruled_out(DrafterKind drafter, int depth, const std::string& problem) {
  if (drafter == DrafterKind::kNone) return NotDrafted::kDrafterNone;
  if (depth == 0) return NotDrafted::kDepthZero;
  if (!problem.empty()) return NotDrafted::kUnavailable;
  return std::nullopt;
}

std::string not_drafted_text(NotDrafted why, const std::string& problem) {
  switch (why) {
    case NotDrafted::kDrafterNone:
      return "the drafter is none";
    case NotDrafted::kDepthZero:
      return "the depth is 0";
    case NotDrafted::kUnavailable:
      return problem;
    case NotDrafted::kNoRound:
      return "no round was run";
    case NotDrafted::kFailed:
      return "the drafter failed; the answer continued without it";
    case NotDrafted::kNothingFound:
      return "no draft was found";
    case NotDrafted::kWouldNotPay:
      return "drafting was estimated to be slower than plain decoding";
  }
  return {};
}

}  // namespace ft
