// How well a model predicts a text, and how close its predictions are to another model's: perplexity, and
// the mean Kullback-Leibler divergence over the likeliest tokens. The text is cut into windows, each read
// alone. Cost: one pass of the target over the text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speculation/decoder.h"

namespace ft {

struct TextQuality {
  double perplexity = 0;
  double divergence = 0;  // from the reference, in nats a token; 0 without one
  std::int64_t tokens = 0;
};

class TextMeter {
 public:
  /// At most `most` tokens of `ids`, in windows of `window`.
  TextMeter(std::span<const std::int32_t> ids, std::int64_t most, std::int64_t window);

  /// Stores the model's predictions; later measurements are compared with them.
  Result<TextQuality> take_reference(Backend& backend, const Model& model);
  Result<TextQuality> measure(Backend& backend, const Model& model) const;
  std::int64_t tokens() const;

 private:
  /// The likeliest tokens of a position.
  struct Prediction {
    std::vector<std::int32_t> tokens;
    std::vector<double> log_probabilities;
  };
  static double divergence(const Prediction& wanted, std::span<const float> logits, double logsumexp);

  std::vector<std::vector<std::int32_t>> windows_;
  std::vector<Prediction> reference_;  // of all positions, in order
};

/// In double and in ascending token order, so that the figure is the same on every machine.
double logsumexp(std::span<const float> logits, float highest);

}  // namespace ft
