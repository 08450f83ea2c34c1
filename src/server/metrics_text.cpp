#include "server/metrics_text.h"

#include "base/power.h"
#include "server/exposition.h"

namespace ft::server {
namespace {

double number(std::int64_t value) { return static_cast<double>(value); }

void count(Exposition& text, std::string_view name, std::string_view help, double value) {
  text.counter(name, help);
  text.sample(value);
}

void measure(Exposition& text, std::string_view name, std::string_view help, double value) {
  text.gauge(name, help);
  text.sample(value);
}

void times(Exposition& text, std::string_view name, std::string_view help, const LatencySums& sums) {
  text.histogram(name, help, LatencySums::kBounds, sums.buckets, sums.sum_seconds);
}

void by_position(Exposition& text, std::string_view name, std::string_view help,
                 const std::array<std::int64_t, kMaxDraftTokens>& counts) {
  text.counter(name, help);
  for (std::size_t i = 0; i < counts.size() && (i < kMaxDraftTokens || counts[i] > 0); ++i) {
    text.sample(number(counts[i]), {{"position", std::to_string(i)}});
  }
}

void by_drafter(Exposition& text, std::string_view name, std::string_view help, const EngineStatus& engine,
                std::int64_t DrafterShare::* figure) {
  text.counter(name, help);
  for (const auto& [drafter, share] : engine.by_drafter)
    text.sample(number(share.*figure), {{"drafter", drafter}});
}

void requests(Exposition& text, const EngineStatus& engine) {
  measure(text, "foretoken_slots", "Requests that can be decoded at once.", engine.slots);
  measure(text, "foretoken_requests_running", "Requests that have a slot.", engine.running);
  measure(text, "foretoken_requests_prefilling", "Running requests in prefill.", engine.prefilling);
  measure(text, "foretoken_requests_paused", "Running requests that wait for a slow client.", engine.paused);
  measure(text, "foretoken_requests_waiting", "Requests in the queue.", engine.waiting);
  measure(text, "foretoken_queue_limit", "Max requests in the queue.", engine.queue);
  count(text, "foretoken_requests_total", "Requests accepted.", number(engine.requests));
  count(text, "foretoken_requests_refused_total",
        "Requests refused because the queue was full or the server was stopping.", number(engine.refused));
  text.counter("foretoken_requests_finished_total", "Requests that ended, by reason.");
  for (const auto& [reason, times_seen] : engine.finished)
    text.sample(number(times_seen), {{"reason", reason}});
  count(text, "foretoken_prompt_tokens_total", "Prompt tokens.", number(engine.prompt_tokens));
  count(text, "foretoken_cached_tokens_total",
        "Prompt tokens reused from the prefix cache, as clients were told.", number(engine.cached_tokens));
  count(text, "foretoken_completion_tokens_total", "Tokens emitted.", number(engine.emitted));
  count(text, "foretoken_prefill_seconds_total", "Time spent on prefill.", engine.prefill_seconds);
  count(text, "foretoken_round_seconds_total", "Time spent on rounds.", engine.round_seconds);
  times(text, "foretoken_queue_seconds", "From request to slot.", engine.queue_time);
  times(text, "foretoken_time_to_first_token_seconds", "From request to first token.",
        engine.time_to_first_token);
  times(text, "foretoken_inter_token_seconds", "Between tokens of a request.", engine.inter_token);
  times(text, "foretoken_request_seconds", "From request to end.", engine.request_time);
}

/// Metrics for the endpoint picker of the Gateway API inference extension (its proposal 003, model server
/// protocol). A slot reserves its whole context, so the used part of the KV cache is the used part of the
/// slots.
void picked_by(Exposition& text, const EngineStatus& engine) {
  const double used = engine.slots > 0 ? number(engine.running) / number(engine.slots) : 0;
  measure(text, "vllm:num_requests_waiting", "Requests in the queue, as vLLM names them.", engine.waiting);
  measure(text, "vllm:num_requests_running", "Requests that have a slot, as vLLM names them.",
          engine.running);
  measure(text, "vllm:kv_cache_usage_perc", "Part of the KV cache in use, 0 to 1.", used);
  measure(text, "vllm:gpu_cache_usage_perc", "The same under its former name.", used);
}

void speculation(Exposition& text, const EngineStatus& engine) {
  count(text, "foretoken_rounds_total", "Rounds of the engine.", number(engine.rounds));
  count(text, "foretoken_slot_rounds_total", "Rounds summed over requests.", number(engine.slot_rounds));
  count(text, "foretoken_drafted_tokens_total", "Draft tokens submitted to verification.",
        number(engine.drafted));
  count(text, "foretoken_accepted_tokens_total", "Draft tokens accepted.", number(engine.accepted));
  by_position(text, "foretoken_drafted_by_position_total", "Draft tokens by position in the draft.",
              engine.drafted_at);
  by_position(text, "foretoken_accepted_by_position_total", "Accepted draft tokens by position in the draft.",
              engine.accepted_at);
  by_drafter(text, "foretoken_drafter_rounds_total", "Rounds of requests by who drafted.", engine,
             &DrafterShare::rounds);
  by_drafter(text, "foretoken_drafter_drafted_tokens_total", "Draft tokens by who drafted them.", engine,
             &DrafterShare::drafted);
  by_drafter(text, "foretoken_drafter_accepted_tokens_total", "Accepted draft tokens by who drafted them.",
             engine, &DrafterShare::accepted);
  count(text, "foretoken_speculation_engaged_total", "Finished requests with at least one draft.",
        number(engine.engaged));
  text.counter("foretoken_speculation_idle_total", "Finished requests without a draft, by reason.");
  for (const auto& [reason, seen] : engine.not_engaged) text.sample(number(seen), {{"reason", reason}});
  count(text, "vllm:spec_decode_num_drafts_total", "Drafts, as vLLM counts them.",
        number(engine.slot_rounds));
  count(text, "vllm:spec_decode_num_draft_tokens_total", "Drafted tokens.", number(engine.drafted));
  count(text, "vllm:spec_decode_num_accepted_tokens_total", "Accepted tokens.", number(engine.accepted));
  by_position(text, "vllm:spec_decode_num_accepted_tokens_per_pos_total", "Accepted tokens by position.",
              engine.accepted_at);
}

/// A key that is not an operator's sees only its part of the cache.
void cached(Exposition& text, const EngineStatus& engine, const CacheReport& cache) {
  measure(text, "foretoken_cache_snapshots", "Snapshots in the prefix cache.", number(cache.snapshots));
  measure(text, "foretoken_cache_limit_bytes", "Max memory for cached snapshots.", number(cache.limit_bytes));
  count(text, "foretoken_cache_lookups_total", "Prompts looked up.", number(cache.lookups));
  count(text, "foretoken_cache_hits_total", "Prompts that reused a snapshot.", number(cache.hits));
  count(text, "foretoken_cache_evicted_total", "Snapshots evicted from memory.", number(cache.evicted));
  if (!cache.whole) return;
  count(text, "foretoken_reused_tokens_total", "Prompt tokens that were not computed again.",
        number(engine.reused_tokens));
  measure(text, "foretoken_cache_bytes", "Memory used by cached snapshots.", number(cache.bytes));
  const CacheTierReport memory = cache.memory.value_or(CacheTierReport{});
  measure(text, "foretoken_cache_memory_files", "Snapshots of a GPU that are kept in the machine's memory.",
          number(memory.files));
  measure(text, "foretoken_cache_memory_bytes", "Memory that these take.", number(memory.bytes));
  measure(text, "foretoken_cache_memory_limit_bytes", "Max memory for these.", number(memory.limit_bytes));
  count(text, "foretoken_cache_memory_loads_total", "Prompts that reused one of these.", number(memory.hits));
  const CacheTierReport disk = cache.disk.value_or(CacheTierReport{});
  measure(text, "foretoken_cache_disk_files", "Snapshot files in the cache folder.", number(disk.files));
  measure(text, "foretoken_cache_disk_bytes", "Total size of the snapshot files.", number(disk.bytes));
  measure(text, "foretoken_cache_disk_limit_bytes", "Max total size of the snapshot files.",
          number(disk.limit_bytes));
  count(text, "foretoken_cache_disk_loads_total", "Prompts that reused a snapshot file.", number(disk.hits));
  count(text, "foretoken_cache_disk_written_total", "Snapshot files written.", number(disk.written));
  count(text, "foretoken_cache_disk_dropped_total", "Unusable snapshot files removed.", number(disk.dropped));
}

/// Figures that this machine does not report are left out.
void processor(Exposition& text, const PowerFacts& power) {
  if (power.mhz > 0)
    measure(text, "foretoken_processor_hertz", "Clock of the processor, mean of all cores.", power.mhz * 1e6);
  if (power.highest_mhz > 0)
    measure(text, "foretoken_processor_max_hertz", "Highest clock of a core.", power.highest_mhz * 1e6);
  if (!power.governor.empty()) {
    text.gauge("foretoken_processor_governor", "1: the governor of the processor's clock.");
    text.sample(1, {{"governor", power.governor}});
  }
  if (power.throttled_times >= 0) {
    count(text, "foretoken_processor_throttled_total",
          "Times that the processor slowed down because of heat or power, since the system started.",
          number(power.throttled_times));
  }
}

}  // namespace

void HttpCounters::answered(const Route& route, int status) {
  const std::lock_guard lock(mutex_);
  ++answered_[{route.pattern, status}];
}

void HttpCounters::write(Exposition& text) const {
  measure(text, "foretoken_http_connections", "Open connections.", open_);
  text.counter("foretoken_http_answers_total", "Answers by route and status; 499: the client left.");
  const std::lock_guard lock(mutex_);
  for (const auto& [key, seen] : answered_) {
    text.sample(number(seen), {{"route", std::string(key.first)}, {"status", std::to_string(key.second)}});
  }
}

std::string metrics_text(const EngineStatus& engine, const CacheReport& cache, const HttpCounters& http,
                         const PowerFacts& power) {
  Exposition text;
  requests(text, engine);
  picked_by(text, engine);
  speculation(text, engine);
  cached(text, engine, cache);
  processor(text, power);
  http.write(text);
  return text.text();
}

}  // namespace ft::server
