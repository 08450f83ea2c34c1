#include "api/accounting.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "api/fields.h"
#include "speculation/report_figures.h"

namespace ft::api {

Account account(const std::vector<Choice>& choices) {
  Account sum;
  for (const Choice& choice : choices) {
    const Report& report = choice.report;
    sum.prompt_tokens = std::max(sum.prompt_tokens, report.prompt_tokens);
    sum.cached_tokens = std::max(sum.cached_tokens, report.cached_tokens);
    sum.completion_tokens += report.completion_tokens;
    sum.reasoning_tokens += report.reasoning_tokens;
    sum.prompt_ms = std::max(sum.prompt_ms, report.prompt_ms);
    sum.decode_ms = std::max(sum.decode_ms, report.decode_ms);
    sum.engaged |= report.engaged;
    if (sum.drafter.empty() || sum.drafter == "none") sum.drafter = report.drafter;
    if (sum.reason.empty()) sum.reason = report.reason;
    add(sum.speculation, report.speculation);
  }
  if (sum.engaged) sum.reason.clear();
  return sum;
}

Json openai_usage(const Account& account) {
  const SpeculationReport& speculation = account.speculation;
  return Json{{"prompt_tokens", account.prompt_tokens},
              {"completion_tokens", account.completion_tokens},
              {"total_tokens", account.prompt_tokens + account.completion_tokens},
              {"prompt_tokens_details", {{"cached_tokens", account.cached_tokens}}},
              {"completion_tokens_details",
               {{"reasoning_tokens", account.reasoning_tokens},
                {"accepted_prediction_tokens", speculation.accepted},
                {"rejected_prediction_tokens", speculation.drafted - speculation.accepted}}}};
}

Json speculation_json(const Account& account) {
  const SpeculationReport& speculation = account.speculation;
  std::size_t deepest = 0;
  while (deepest < speculation.drafted_at.size() && speculation.drafted_at[deepest] > 0) ++deepest;
  Json accepted = Json::array(), drafted = Json::array();
  for (std::size_t i = 0; i < deepest; ++i) {
    accepted.push_back(speculation.accepted_at[i]);
    drafted.push_back(speculation.drafted_at[i]);
  }
  Json drafters = Json::object();
  for (const DrafterShare& share : speculation.by_drafter) {
    if (share.name.empty()) continue;
    drafters[std::string(share.name)] = {
        {"rounds", share.rounds}, {"drafted", share.drafted}, {"accepted", share.accepted}};
  }
  const double rounds = static_cast<double>(std::max<std::int64_t>(1, speculation.rounds));
  return Json{{"engaged", account.engaged},
              {"reason", account.reason.empty() ? Json() : Json(account.reason)},
              {"drafter", account.drafter},
              {"rounds", speculation.rounds},
              {"drafted", speculation.drafted},
              {"accepted", speculation.accepted},
              {"accepted_by_position", std::move(accepted)},
              {"drafted_by_position", std::move(drafted)},
              {"by_drafter", std::move(drafters)},
              {"tokens_per_round", static_cast<double>(speculation.emitted) / rounds}};
}

Json timings_json(const Account& account) {
  const double speed = account.decode_ms > 0 ? account.completion_tokens * 1e3 / account.decode_ms : 0;
  return Json{{"prompt_n", account.prompt_tokens}, {"prompt_ms", account.prompt_ms},
              {"cached_n", account.cached_tokens}, {"predicted_n", account.completion_tokens},
              {"predicted_ms", account.decode_ms}, {"predicted_per_second", speed}};
}

HttpResponse accounted_reply(Json json, const Account& account) {
  json["usage"] = openai_usage(account);
  json["speculation"] = speculation_json(account);
  json["timings"] = timings_json(account);
  HttpResponse reply;
  reply.body = dump(json);
  reply.headers.emplace_back("X-Speculation", speculation_header(account));
  return reply;
}

std::string speculation_header(const Account& account) {
  if (!account.engaged) return fmt::format("idle; {}", account.reason);
  return fmt::format("engaged; drafter={}; rounds={}; drafted={}; accepted={}", account.drafter,
                     account.speculation.rounds, account.speculation.drafted, account.speculation.accepted);
}

}  // namespace ft::api
