#include "models/blocks/rope.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>

#include "format/tensor.h"
#include "models/blocks/limits.h"

namespace ft::blocks {
namespace {

using format::in_quotes;
using format::KeyReader;

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 65536;

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

/// The factor of a stretched context. If YaRN names none, it is the quotient of both lengths.
double read_factor(KeyReader& keys, const Rope& rope, std::int64_t positions) {
  const bool derived = rope.type == RopeType::kYarn && rope.original_positions < positions;
  if (keys.find("factor") == nullptr && !derived)
    keys.fail("factor", "the factor by which the context is stretched", nullptr);
  const double quotient = static_cast<double>(positions) / static_cast<double>(rope.original_positions);
  return keys.real("factor", derived ? std::min(quotient, kMaxFactor) : 1, 1, kMaxFactor);
}

void read_yarn(KeyReader& keys, Rope& rope) {
  rope.beta_fast = keys.real("beta_fast", 32, 1e-6, 1e6);
  rope.beta_slow = keys.real("beta_slow", 1, 1e-6, 1e6);
  rope.truncate = keys.flag("truncate", true);
  // mscale pairs come from DeepSeek's configs; transformers' yarn reads them this way.
  const double mscale = keys.real("mscale", 0, 0, 100);
  const double mscale_all = keys.real("mscale_all_dim", 0, 0, 100);
  const double derived = mscale > 0 && mscale_all > 0
                             ? yarn_scale(rope.factor, mscale) / yarn_scale(rope.factor, mscale_all)
                             : yarn_scale(rope.factor, 1);
  rope.attention_factor = keys.real("attention_factor", derived, 1e-6, 1e6);
}

void read_llama3(KeyReader& keys, Rope& rope) {
  rope.low_frequency_factor = keys.real("low_freq_factor", 1, 1e-6, 1e6);
  rope.high_frequency_factor = keys.real("high_freq_factor", 4, 1e-6, 1e6);
  if (rope.high_frequency_factor <= rope.low_frequency_factor)
    keys.fail("high_freq_factor", "more than low_freq_factor", keys.find("high_freq_factor"));
}

void read_type(KeyReader& keys, Rope& rope) {
  const std::string type = keys.text("rope_type", keys.text("type", "default"));
  if (type == "linear") {
    rope.type = RopeType::kLinear;
  } else if (type == "llama3") {
    rope.type = RopeType::kLlama3;
  } else if (type == "yarn") {
    rope.type = RopeType::kYarn;
  } else if (type != "default" && type != "mrope") {
    keys.fail(Code::kUnsupported, keys.where() +
                                      ".rope_type: expected default, linear, llama3 or yarn, found " +
                                      in_quotes(type) + "; use a model with one of these");
  }
}

/// The correction range of YaRN: dims below `low` keep their frequency, dims above `high` are stretched.
struct Range {
  double low = 0, high = 0;
};

Range yarn_range(const Rope& rope) {
  const auto dims = static_cast<double>(rope.rotary_dim);
  const auto correction = [&](double rotations) {
    return dims *
           std::log(static_cast<double>(rope.original_positions) / (rotations * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  Range range{correction(rope.beta_fast), correction(rope.beta_slow)};
  if (rope.truncate) range = {std::floor(range.low), std::ceil(range.high)};
  range.low = std::max(range.low, 0.0);
  range.high = std::min(range.high, dims - 1);
  if (range.low == range.high) range.high += 0.001;
  return range;
}

/// Long waves are stretched, short ones are kept, and those in between are mixed.
double llama3_frequency(const Rope& rope, double frequency) {
  const auto old = static_cast<double>(rope.original_positions);
  const double wave = 2 * std::numbers::pi / frequency;
  if (wave < old / rope.high_frequency_factor) return frequency;
  if (wave > old / rope.low_frequency_factor) return frequency / rope.factor;
  const double smooth =
      (old / wave - rope.low_frequency_factor) / (rope.high_frequency_factor - rope.low_frequency_factor);
  return (1 - smooth) * frequency / rope.factor + smooth * frequency;
}

/// The keys, which a config may hold for each type of layer. This family turns all of its layers alike.
const nlohmann::json& shared_keys(KeyReader& text, const char* name, const nlohmann::json& keys) {
  const bool by_type = !keys.empty() && keys.is_object() &&
                       std::ranges::all_of(keys, [](const nlohmann::json& of) { return of.is_object(); });
  if (!by_type) return keys;
  for (const nlohmann::json& of : keys) {
    if (of == keys.front()) continue;
    text.fail(Code::kUnsupported, text.where() + ": " + name +
                                      ": expected the same for every type of layer, found several; use a "
                                      "model that turns its layers alike");
  }
  return keys.front();
}

}  // namespace

Rope read_rope(KeyReader& text, const RopeDefaults& defaults) {
  const char* name = text.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  KeyReader keys(shared_keys(text, name, text.object(name)),
                 text.where() + (text.where().ends_with(".json") ? ": " : ".") + name);
  Rope rope;
  rope.theta = keys.real("rope_theta", text.real("rope_theta", defaults.theta, 1, kMaxTheta), 1, kMaxTheta);
  const double partial = keys.real("partial_rotary_factor",
                                   text.real("partial_rotary_factor", defaults.partial, 1e-6, 1), 1e-6, 1);
  rope.rotary_dim = static_cast<int>(defaults.head_dim * partial);
  if (rope.rotary_dim < 2 || rope.rotary_dim % 2 != 0) {
    keys.fail("partial_rotary_factor",
              "a factor that makes an even number of the " + std::to_string(defaults.head_dim) +
                  " dimensions of an attention head",
              keys.find("partial_rotary_factor"));
  }
  read_type(keys, rope);
  if (rope.type != RopeType::kDefault) {
    const char* original = "original_max_position_embeddings";
    const std::int64_t inner = keys.whole64(original, defaults.positions, 1, kMaxPositions);
    rope.original_positions = text.whole64(original, inner, 1, kMaxPositions);
    rope.factor = read_factor(keys, rope, defaults.positions);
  }
  rope.gain_beta = keys.real("llama_4_scaling_beta", 0, 0, 1e3);
  if (rope.gain_beta > 0) {
    rope.gain_span = rope.original_positions;
    if (rope.gain_span == 0)
      rope.gain_span = keys.whole64("original_max_position_embeddings", defaults.positions, 1, kMaxPositions);
  }
  if (rope.type == RopeType::kYarn) read_yarn(keys, rope);
  if (rope.type == RopeType::kLlama3) read_llama3(keys, rope);
  if (!keys.status().ok()) text.fail(keys.status().error().code, keys.status().error().message);
  return rope;
}

std::vector<float> inverse_frequencies(const Rope& rope) {
  const Range range = rope.type == RopeType::kYarn ? yarn_range(rope) : Range{};
  std::vector<float> frequencies;
  for (int j = 0; j < rope.rotary_dim / 2; ++j) {
    double frequency = std::pow(rope.theta, -2.0 * j / rope.rotary_dim);
    if (rope.type == RopeType::kYarn) {
      const double ramp = std::clamp((j - range.low) / (range.high - range.low), 0.0, 1.0);
      frequency = frequency / rope.factor * ramp + frequency * (1 - ramp);
    } else if (rope.type == RopeType::kLlama3) {
      frequency = llama3_frequency(rope, frequency);
    } else {
      frequency /= rope.factor;
    }
    frequencies.push_back(static_cast<float>(frequency));
  }
  return frequencies;
}

void set_rope(Attention& attend, const Rope& rope) {
  attend.rotary = rope.rotary_dim;
  attend.inverse_frequencies = inverse_frequencies(rope);
  if (rope.gain_span > 0) {
    attend.gain_span = rope.gain_span;
    for (std::int64_t step = 0; step * rope.gain_span < rope.gain_positions; ++step)
      attend.gains.push_back(static_cast<float>(1 + rope.gain_beta * std::log1p(static_cast<double>(step))));
  }
  attend.rotary_scale = rope.type == RopeType::kYarn ? static_cast<float>(rope.attention_factor) : 1;
}

}  // namespace ft::blocks
