// Answers of a model in bulk: several slots of one decoder at once. Each prompt has its own seed, so the
// tokens of a prompt do not depend on the number of streams or on its neighbours. Thread: the one that owns
// the decoder.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "speculation/decoder.h"

namespace ft::tune {

struct Ask {
  std::vector<std::int32_t> prompt;
  SamplingParams sampler;
  int max_tokens = 0;
};

struct Answered {
  std::vector<std::int32_t> tokens;  // prompt and answer
  int prompt_tokens = 0;
  std::span<const std::int32_t> answer() const {
    return std::span(tokens).subspan(static_cast<std::size_t>(prompt_tokens));
  }
};

/// The next question of prompt `index` after `stage` answers, the last of which is `last`; none: the prompt
/// is done. A prompt without a first question is left out.
using NextAsk =
    std::function<Result<std::optional<Ask>>(std::int64_t index, int stage, const Answered& last)>;
/// Takes the last answer of a prompt; none if it was left out. Prompts come in the order in which they end.
using TakeAnswer = std::function<Status(std::int64_t index, std::optional<Answered>)>;

struct StreamOptions {
  int streams = 1;                // at most the decoder's slots
  std::vector<std::int32_t> eos;  // ends an answer
  bool drafts = true;             // many streams are faster without
};

/// kCancelled as soon as `stopped` returns true.
Status write_answers(Decoder& decoder, const StreamOptions& options, std::span<const std::int64_t> indices,
                     const NextAsk& next, const TakeAnswer& take, const std::function<bool()>& stopped);

/// Tokens of a text before it begins to repeat itself: a window with few different tokens ends it.
std::size_t before_repetition(std::span<const std::int32_t> tokens, std::size_t first);

}  // namespace ft::tune
