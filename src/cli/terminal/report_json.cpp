#include "cli/terminal/report_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/quantile.h"
#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string dump_report(const Json& value) { return write_json(value); }

/// JSON has no infinity and no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

/// Rounds to a given number of decimals, for readable reports.
Json rounded(double value, double unit) { return number(std::round(value / unit) * unit); }

Json ms(double value) { return rounded(value, 1e-3); }

Json shares(const SpeculationReport& report) {
  Json list = Json::array();
  for (const double share : acceptance_by_position(report)) list.push_back(rounded(share, 1e-4));
  return list;
}

Json counts(const std::array<std::int64_t, kMaxDraftTokens>& by_position, const SpeculationReport& report) {
  Json list = Json::array();
  for (std::size_t i = 0; i < by_position.size() && report.drafted_at[i] > 0; ++i)
    list.push_back(by_position[i]);
  return list;
}

Json by_drafter(const SpeculationReport& report) {
  Json all = Json::object();
  for (const DrafterShare& share : report.by_drafter) {
    if (share.name.empty()) continue;
    all[std::string(share.name)] = {
        {"rounds", share.rounds}, {"drafted", share.drafted}, {"accepted", share.accepted}};
  }
  return all;
}

Json speculation_json(const Report& report) {
  const SpeculationReport& spec = report.speculation;
  return Json{{"engaged", report.engaged},
              {"reason", report.reason},
              {"drafter", report.drafter},
              {"rounds", spec.rounds},
              {"drafted", spec.drafted},
              {"accepted", spec.accepted},
              {"drafted_by_position", counts(spec.drafted_at, spec)},
              {"accepted_by_position", counts(spec.accepted_at, spec)},
              {"by_drafter", by_drafter(spec)},
              {"tokens_per_round", rounded(tokens_per_round(spec), 1e-4)}};
}

Json logprobs_json(const RunReport& report) {
  Json list = Json::array();
  const auto text_of = [&](std::int32_t id) {
    return report.tokenizer != nullptr ? std::string(report.tokenizer->token_bytes(id)) : std::string();
  };
  for (std::size_t i = 0; i < report.answer.logprobs.size() && i < report.answer.ids.size(); ++i) {
    const Logprobs& row = report.answer.logprobs[i];
    Json top = Json::array();
    for (const TokenLogprob& entry : row.top) {
      top.push_back(
          Json{{"id", entry.token}, {"token", text_of(entry.token)}, {"logprob", number(entry.logprob)}});
    }
    const std::int32_t id = report.answer.ids[i];
    list.push_back(
        Json{{"id", id}, {"token", text_of(id)}, {"logprob", number(row.sampled)}, {"top", std::move(top)}});
  }
  return list;
}

Json speed_json(const Speed& speed) { return rounded(speed.tokens_per_second(), 1e-3); }

}  // namespace

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "invalid";
    case Code::kNotFound:
      return "not_found";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kExhausted:
      return "exhausted";
    case Code::kTooLong:
      return "too_long";
    case Code::kBusy:
      return "busy";
    case Code::kIo:
      return "io";
    case Code::kCancelled:
      return "cancelled";
  }
  return "invalid";
}

std::string error_json(const Error& error) {
  return dump_report(Json{{"error", {{"code", code_name(error.code)}, {"message", error.message}}}});
}

std::string run_json(const RunReport& report) {
  const GatheredAnswer& answer = report.answer;
  Json calls = Json::array();
  for (const ToolCall& call : answer.tool_calls) {
    calls.push_back(Json{{"name", call.name}, {"arguments", call.arguments}});
  }
  Json out{{"model", report.model},
           {"backend", report.backend},
           {"text", answer.text},
           {"reasoning", answer.reasoning},
           {"tool_calls", std::move(calls)},
           {"token_ids", answer.ids},
           {"finish_reason", finish_text(answer)},
           {"usage",
            {{"prompt_tokens", answer.report.prompt_tokens},
             {"completion_tokens", answer.report.completion_tokens}}},
           {"timing",
            {{"load_ms", ms(report.load_ms)},
             {"costs", report.costs},
             {"prompt_ms", ms(answer.report.prompt_ms)},
             {"decode_ms", ms(answer.report.decode_ms)},
             {"tokens_per_second", rounded(answer.report.tokens_per_second(), 1e-3)}}},
           {"speculation", speculation_json(answer.report)}};
  if (report.wants_logprobs) out["logprobs"] = logprobs_json(report);
  if (answer.finish == Finish::kError)
    out["error"] = Json{{"code", "failed"}, {"message", answer.error.message}};
  return dump_report(out);
}

std::string bench_json(const BenchReport& report) {
  Json prompts = Json::array();
  for (const BenchPrompt& prompt : report.prompts) {
    Json ratios = Json::array();
    for (const double ratio : prompt.ratios) ratios.push_back(rounded(ratio, 1e-4));
    prompts.push_back(Json{{"name", prompt.name},
                           {"sampling", prompt.sampling},
                           {"prompt_tokens", prompt.prompt_tokens},
                           {"tokens", prompt.plain.tokens},
                           {"plain_tokens_per_second", speed_json(prompt.plain)},
                           {"speculative_tokens_per_second", speed_json(prompt.speculative)},
                           {"ratio", rounded(quantile(prompt.ratios, 0.5), 1e-4)},
                           {"ratios", std::move(ratios)},
                           {"drafter", prompt.drafter},
                           {"reason", prompt.reason},
                           {"accepted_by_position", shares(prompt.speculation)},
                           {"tokens_per_round", rounded(tokens_per_round(prompt.speculation), 1e-4)},
                           {"identical", prompt.identical}});
  }
  const BenchSummary summary = summarise(report);
  const Json total{{"plain_tokens_per_second", speed_json(summary.plain)},
                   {"speculative_tokens_per_second", speed_json(summary.speculative)},
                   {"ratio", rounded(summary.ratio, 1e-4)},
                   {"spread", {rounded(summary.low, 1e-4), rounded(summary.high, 1e-4)}},
                   {"accepted_by_position", shares(summary.speculation)},
                   {"tokens_per_round", rounded(tokens_per_round(summary.speculation), 1e-4)},
                   {"identical", summary.identical}};
  return dump_report(
      Json{{"model", report.model}, {"backend", report.backend}, {"prompts", prompts}, {"summary", total}});
}

std::string score_json(const ScoreReport& report) {
  Json positions = Json::array();
  for (const ScoredPosition& position : report.positions) {
    Json top = Json::array();
    for (const auto& [id, logit] : position.top) top.push_back(Json::array({id, number(logit)}));
    positions.push_back(Json{{"id", position.id},
                             {"argmax", position.argmax},
                             {"argmax_logit", number(position.argmax_logit)},
                             {"logsumexp", number(position.logsumexp)},
                             {"top", std::move(top)}});
  }
  return dump_report(Json{{"positions", std::move(positions)},
                          {"tokens", report.positions.size()},
                          {"log_likelihood", number(report.log_likelihood)},
                          {"perplexity", number(report.perplexity())}});
}

std::string tokenize_json(const std::vector<std::int32_t>& ids, const std::vector<std::string>& pieces,
                          const std::string& text) {
  return dump_report(Json{{"ids", ids}, {"tokens", pieces}, {"text", text}, {"count", ids.size()}});
}

std::string inspect_json(const Inspection& found) {
  Json out{{"directory", found.directory},
           {"name", found.name},
           {"family", found.family},
           {"quantisation", found.quantisation},
           {"parameters", found.parameters},
           {"active_parameters", found.active_parameters},
           {"file_bytes", found.file_bytes},
           {"step_bytes", found.step_bytes},
           {"held_bytes", found.held_bytes},
           {"tower",
            {{"parameters", found.tower_parameters},
             {"bytes", found.tower_bytes},
             {"max_pixels", found.max_pixels},
             {"problem", found.images_problem.empty() ? Json(nullptr) : Json(found.images_problem)}}},
           {"sizes",
            {{"layers", found.layers},
             {"full_attention_layers", found.full_attention_layers},
             {"hidden", found.hidden},
             {"intermediate", found.intermediate},
             {"experts", found.experts},
             {"experts_per_token", found.experts_per_token},
             {"expert_size", found.expert_size},
             {"heads", found.heads},
             {"kv_heads", found.kv_heads},
             {"head_dim", found.head_dim},
             {"vocabulary", found.vocabulary},
             {"draft_vocabulary", found.draft_vocabulary},
             {"draft_bits", found.draft_bits},
             {"tied", found.tied},
             {"max_context", found.max_context}}},
           {"memory",
            {{"context", found.context},
             {"weight_bytes", found.weight_bytes},
             {"state_bytes", found.state_bytes},
             {"image_bytes", found.image_bytes},
             {"needed_bytes", found.memory_needed},
             {"available_bytes", found.memory_available}}},
           {"verdict", found.verdict},
           {"gpu", found.gpu.empty() ? Json(nullptr) : Json(found.gpu)},
           {"devices", found.devices},
           {"head",
            {{"state", found.head_state},
             {"sentence", found.head_sentence},
             {"file", found.head_file},
             {"donors", found.head_donors}}},
           {"drafter", found.drafter},
           {"notes", found.notes}};
  if (!found.tier.empty()) {
    out["tier"] = found.tier;
    out["runs"] = true;
    out["reason"] = found.tier_reason;
    out["next"] = found.tier_next;
  }
  if (!found.program.empty()) out["program"] = found.program;
  if (!found.packed_cache.folder.empty()) {
    out["prepared"] = {{"folder", found.packed_cache.folder},
                       {"files", found.packed_cache.files},
                       {"bytes", found.packed_cache.bytes}};
  }
  return dump_report(out);
}

std::string doctor_json(const Machine& machine, const std::vector<Finding>& findings,
                        const std::string& backend, const std::optional<GpuMemory>& gpu) {
  Json list = Json::array();
  bool good = true;
  for (const Finding& finding : findings) {
    const char* kind = finding.kind == Finding::Kind::kGood      ? "good"
                       : finding.kind == Finding::Kind::kWarning ? "warning"
                                                                 : "problem";
    good = good && finding.kind != Finding::Kind::kProblem;
    list.push_back(Json{{"kind", kind}, {"what", finding.what}, {"mend", finding.repair}});
  }
  return dump_report(
      Json{{"system", machine.system},
           {"processor", machine.processor},
           {"features", machine.features},
           {"logical_cores", machine.logical_cores},
           {"cpu_limit", machine.cpu_limit > 0 ? Json(machine.cpu_limit) : Json(nullptr)},
           {"memory",
            {{"total_bytes", machine.memory_total},
             {"available_bytes", machine.memory_available},
             {"limit_bytes", machine.memory_limit > 0 ? Json(machine.memory_limit) : Json(nullptr)},
             {"free_bytes", machine.free_bytes()}}},
           {"huge_pages", machine.huge_pages},
           {"governor", machine.power.governor},
           {"clock",
            {{"mhz", rounded(machine.power.mhz, 1)},
             {"highest_mhz", rounded(machine.power.highest_mhz, 1)},
             {"throttled_times",
              machine.power.throttled_times < 0 ? Json(nullptr) : Json(machine.power.throttled_times)}}},
           {"read_gb_per_s", rounded(machine.read_gb_per_s, 0.01)},
           {"backend", backend},
           {"gpu_memory",
            gpu ? Json{{"free_bytes", gpu->free_bytes}, {"copy_gb_per_s", rounded(gpu->copy_gb_per_s, 0.01)}}
                : Json(nullptr)},
           {"findings", std::move(list)},
           {"good", good}});
}

std::string verify_json(const MatrixReport& report, const std::string& model, const std::string& backend) {
  Json cells = Json::array();
  for (const CellResult& result : report.cells) {
    cells.push_back(Json{{"cell", result.cell.text()},
                         {"prompts", result.prompts},
                         {"tokens", result.tokens},
                         {"compared", result.compared},
                         {"differing", result.differing},
                         {"drafted", result.drafted},
                         {"accepted", result.accepted},
                         {"first_difference", result.first_difference}});
  }
  return dump_report(Json{{"model", model},
                          {"backend", backend},
                          {"identical", report.identical()},
                          {"complete", report.complete},
                          {"compared", report.compared},
                          {"differing", report.differing},
                          {"prompts", report.prompts},
                          {"prompts_with_pictures", report.pictured},
                          {"images_problem", report.images_problem},
                          {"cells", std::move(cells)}});
}

std::string synth_json(const std::string& directory, std::int64_t parameters, std::int64_t bytes,
                       double seconds) {
  return dump_report(Json{{"directory", directory},
                          {"parameters", parameters},
                          {"bytes", bytes},
                          {"seconds", rounded(seconds, 1e-3)}});
}

std::string conversion_json(const ConversionReport& report) {
  Json object = {{"directory", report.directory},
                 {"recipe", report.recipe},
                 {"source_format", report.source_format},
                 {"source_bytes", report.source_bytes},
                 {"bytes", report.bytes},
                 {"bits_per_weight", rounded(report.bits_per_weight, 1e-3)},
                 {"written", report.written},
                 {"files_kept", report.files_kept},
                 {"seconds", rounded(report.seconds, 1e-3)}};
  object["notes"] = report.notes;
  if (!report.tensors.empty()) object["tensors"] = Json::array();
  for (const TensorFigure& tensor : report.tensors) {
    object["tensors"].push_back(Json{{"name", tensor.name},
                                     {"format", tensor.format},
                                     {"cosine", rounded(tensor.cosine, 1e-7)},
                                     {"relative_error", rounded(tensor.relative, 1e-6)}});
  }
  if (const auto& quality = report.quality) {
    object["quality"] = {{"tokens", quality->tokens},
                         {"perplexity_before", rounded(quality->perplexity_before, 1e-4)},
                         {"perplexity_after", rounded(quality->perplexity_after, 1e-4)},
                         {"divergence", rounded(quality->divergence, 1e-6)},
                         {"acceptance_before", acceptance_by_position(quality->head_before)},
                         {"acceptance_after", acceptance_by_position(quality->head_after)}};
  }
  return dump_report(object);
}

}  // namespace ft::cli
