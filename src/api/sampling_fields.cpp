#include "api/sampling_fields.h"

#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>

#include "text/stop_matcher.h"

namespace ft::api {
namespace {

Result<std::vector<LogitBias>> read_bias(const Fields& fields) {
  std::vector<LogitBias> bias;
  FT_ASSIGN(const Json* object, fields.object("logit_bias"));
  if (object == nullptr) return bias;
  const std::string path = fields.at("logit_bias");
  if (object->size() > kMaxBias) {
    return wrong(path, fmt::format("at most {} tokens, found {}", kMaxBias, object->size()));
  }
  for (const auto& [key, value] : object->items()) {
    std::int32_t token = 0;
    const auto [end, problem] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (problem != std::errc() || end != key.data() + key.size()) {
      return wrong(path, fmt::format("keys must be token ids, found \"{}\"", key));
    }
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100)) {
      return wrong(fmt::format("{}.{}", path, key),
                   fmt::format("must be a number between -100 and 100, found {}", kind_of(value)));
    }
    bias.push_back({token, value.get<float>()});
  }
  return bias;
}

Result<std::optional<float>> read_number(const Fields& fields, const SamplingNumber<float>& number,
                                         float max_temperature, int /*min_top_k*/) {
  constexpr float kMaxPenalty = 2;  // OpenAI's
  float low = number.low, high = number.high;
  if (number.value == &SamplingParams::temperature) high = max_temperature;
  if (low < 0) low = -kMaxPenalty, high = kMaxPenalty;
  FT_ASSIGN(std::optional<float> found, fields.number(number.name, low, high));
  if (found && !number.takes(*found)) found = kNearlyNone;
  return found;
}

Result<std::optional<int>> read_number(const Fields& fields, const SamplingNumber<int>& number,
                                       float /*max_temperature*/, int min_top_k) {
  FT_ASSIGN(const auto found, fields.integer(number.name, min_top_k, number.high));
  return found ? std::optional<int>(std::max(0, static_cast<int>(*found))) : std::nullopt;
}

}  // namespace

Result<std::vector<std::string>> read_stops(const Fields& fields, std::string_view name) {
  std::vector<std::string> stops;
  const Json* value = fields.find(name);
  if (value == nullptr) return stops;
  const std::string path = fields.at(name);
  if (value->is_string()) {
    stops.push_back(value->get<std::string>());
  } else if (value->is_array()) {
    for (std::size_t i = 0; i < value->size(); ++i) {
      if (!(*value)[i].is_string()) {
        return wrong(fmt::format("{}[{}]", path, i),
                     fmt::format("must be a string, found {}", kind_of((*value)[i])));
      }
      stops.push_back((*value)[i].get<std::string>());
    }
  } else {
    return wrong(path, fmt::format("must be a string or a list of strings, found {}", kind_of(*value)));
  }
  if (stops.size() > kMaxStops) {
    return wrong(path, fmt::format("at most {} strings, found {}", kMaxStops, stops.size()));
  }
  for (const std::string& stop : stops) {
    if (stop.empty()) return wrong(path, "an empty stop string would end every answer; omit it");
    if (stop.size() > kMaxStopBytes) {
      return wrong(path, fmt::format("at most {} bytes each, found {}", kMaxStopBytes, stop.size()));
    }
  }
  return stops;
}

Status read_sampling_numbers(const Fields& fields, GenerateParams& call, float max_temperature,
                             int min_top_k) {
  Status status;
  each_sampling_number([&](const auto& number) {
    if (!status.ok()) return;
    auto read = read_number(fields, number, max_temperature, min_top_k);
    if (!read.ok())
      status = read.error();
    else
      call.sampling.*number.asked = *read;
  });
  FT_TRY(status);
  constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();
  FT_ASSIGN(const auto seed, fields.integer("seed", kLowest, kHighest));
  if (seed) call.seed = static_cast<std::uint64_t>(*seed);
  return {};
}

Status read_sampling(const Fields& fields, GenerateParams& call) {
  FT_TRY(read_sampling_numbers(fields, call, 2, -1));  // top_k -1: all, as in vLLM
  FT_ASSIGN(const auto choices, fields.integer("n", 1, kMaxChoices));
  call.choices = static_cast<int>(choices.value_or(1));
  FT_ASSIGN(call.bias, read_bias(fields));
  FT_ASSIGN(call.stops, read_stops(fields, "stop"));
  return {};
}

Status read_speculation(const Fields& fields, GenerateParams& call) {
  FT_ASSIGN(const auto speculation, fields.word("speculation", {"auto", "require", "off"}));
  if (speculation == "require") call.speculation = Speculation::kRequire;
  if (speculation == "off") call.speculation = Speculation::kOff;
  FT_ASSIGN(const auto acceptance, fields.word("acceptance", {"coupled", "rejection", "ratio"}));
  if (acceptance == "rejection" || acceptance == "ratio") call.acceptance = Acceptance::kRejection;
  FT_ASSIGN(const auto drafter, fields.word("drafter", {"auto", "mtp", "lookup", "none"}));
  if (drafter) {
    FT_ASSIGN(call.drafter, DrafterKind::parse(*drafter));
  }
  FT_ASSIGN(const auto depth, fields.integer("depth", -1, kMaxDraftTokens));
  call.depth = static_cast<int>(depth.value_or(-1));
  FT_ASSIGN(const auto stream, fields.boolean("stream"));
  call.stream = stream.value_or(false);
  FT_ASSIGN(const Json* options, fields.object("stream_options"));
  if (options != nullptr) {
    FT_ASSIGN(const auto usage, Fields(*options, "stream_options").boolean("include_usage"));
    call.stream_usage = usage.value_or(false);
  }
  FT_ASSIGN(const auto coloured, fields.boolean("stream_speculation"));
  call.stream_speculation = coloured.value_or(false);
  return {};
}

}  // namespace ft::api
