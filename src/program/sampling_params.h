// The numbers that a caller may give for sampling. each_sampling_number() is the only list of them: flags,
// JSON, generation_config.json, checks, requests to other servers and reports derive from it. A new number is
// a member of two structs and a line of the list.
#pragma once

#include <cstdint>
#include <optional>

namespace ft {

/// The sampling parameters of a request. Defaults: greedy, nothing filtered, nothing penalised.
struct SamplingParams {
  float temperature = 0;  // 0 is greedy
  int top_k = 0;          // 0: all
  float top_p = 1;
  float min_p = 0;
  float repetition = 1;  // divides positive, multiplies negative logits of tokens seen in prompt or output
  float presence = 0;    // subtracted once from tokens seen in the output
  float frequency = 0;   // subtracted per occurrence in the output
  std::uint64_t seed = 0;
};

/// The same numbers, each only if a caller gave it.
struct AskedSampling {
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p, min_p, repetition, presence, frequency;
};

/// The value used for 0 where only numbers above 0 are allowed (top_p): the likeliest token alone.
inline constexpr float kNearlyNone = 1e-6F;

template <class T>
struct SamplingNumber {
  const char* name;  // in JSON; a flag has dashes
  T SamplingParams::* value;
  std::optional<T> AskedSampling::* asked;
  T low, high;
  const char* help;
  bool penalty = false;    // changes logits before temperature and filters; counts for greedy answers too
  bool above_low = false;  // `low` itself is not allowed
  bool takes(T number) const {  // false for NaN
    return number <= high && (above_low ? number > low : number >= low);
  }
};

/// Calls visit(SamplingNumber) for each, in the order of --help.
template <class Visit>
void each_sampling_number(Visit&& visit) {
  using Params = SamplingParams;
  using Asked = AskedSampling;
  using Real = SamplingNumber<float>;
  visit(Real{"temperature", &Params::temperature, &Asked::temperature, 0, 100,
             "Sampling temperature; 0 is greedy"});
  visit(SamplingNumber<int>{"top_k", &Params::top_k, &Asked::top_k, 0, 1 << 24,
                            "Sample from the N most likely tokens; 0: all"});
  visit(Real{"top_p", &Params::top_p, &Asked::top_p, 0, 1,
             "Sample from the most likely tokens up to this total probability; 1: all", false, true});
  visit(Real{"min_p", &Params::min_p, &Asked::min_p, 0, 1,
             "Drop tokens with less than X times the probability of the most likely one; 0: off"});
  visit(Real{"repetition_penalty", &Params::repetition, &Asked::repetition, 0.01F, 10,
             "Divides the logits of tokens seen so far; 1: off", true});
  visit(Real{"presence_penalty", &Params::presence, &Asked::presence, -10, 10,
             "Subtracted from the logits of generated tokens; 0: off", true});
  visit(Real{"frequency_penalty", &Params::frequency, &Asked::frequency, -10, 10,
             "Subtracted from a token's logit for each time it was generated; 0: off", true});
}

/// The values asked for, and the values of `own` for the rest.
inline SamplingParams chosen(const AskedSampling& asked, SamplingParams own) {
  each_sampling_number(
      [&](const auto& number) { own.*number.value = (asked.*number.asked).value_or(own.*number.value); });
  return own;
}

/// All of them.
inline AskedSampling asked(const SamplingParams& params) {
  AskedSampling all;
  each_sampling_number([&](const auto& number) { all.*number.asked = params.*number.value; });
  return all;
}

inline bool any_asked(const AskedSampling& asked) {
  bool any = false;
  each_sampling_number([&](const auto& number) { any = any || (asked.*number.asked).has_value(); });
  return any;
}

}  // namespace ft
