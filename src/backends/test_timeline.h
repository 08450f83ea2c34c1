// One sequence driven through an executable by hand, for tests, as timeline/ and speculation/ do, in the
// fewest lines. Errors: fails the test by throwing.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "program/backend.h"

namespace ft {

/// Tokens in, logits of every row out. keep() may drop rows after the confirmed ones (`confirmed`).
class TestTimeline {
 public:
  TestTimeline(Executable& executable, State& state, std::vector<std::int32_t> blocks, std::int32_t slot)
      : executable_(executable), state_(state), blocks_(std::move(blocks)), slot_(slot) {}

  Segment segment(int rows, int confirmed) const {
    return {{blocks_, slot_, replay_, tape_}, position_, rows, confirmed};
  }

  /// Runs one step of this timeline alone. Returns logits [rows, vocabulary].
  std::vector<float> step(const std::vector<std::int32_t>& tokens, int confirmed) {
    const std::vector<Segment> segments = {segment(static_cast<int>(tokens.size()), confirmed)};
    std::vector<std::int32_t> logit_rows(tokens.size());
    for (std::size_t i = 0; i < logit_rows.size(); ++i) logit_rows[i] = static_cast<std::int32_t>(i);
    StepArgs args;
    args.tokens = tokens;
    args.segments = segments;
    args.logit_rows = logit_rows;
    const StepResult result = executable_.run(args, state_);
    return {result.logits.begin(), result.logits.end()};
  }

  /// Ends a step: its confirmed rows and `kept` of the others stay.
  void keep(int confirmed, int kept) {
    position_ += confirmed + kept;
    // Without unconfirmed rows nothing was written to the other tape, so nothing is left to replay.
    replay_ = kept;
    tape_ = 1 - tape_;
  }

  /// Continues from the state of `other`, with separate memory.
  void adopt(const TestTimeline& other) {
    position_ = other.position_;
    replay_ = other.replay_;
    tape_ = other.tape_;
  }

  std::int64_t position() const { return position_; }

 private:
  Executable& executable_;
  State& state_;
  std::vector<std::int32_t> blocks_;
  std::int32_t slot_;
  std::int64_t position_ = 0;
  std::int32_t replay_ = 0, tape_ = 0;
};

}  // namespace ft
