#include "cli/bench/bench_serve.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "base/json.h"
#include "base/quantile.h"
#include "cli/terminal/reports.h"
#include "lab/bench_prompts.h"
#include "server/client.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// Times of one request, filled line by line.
struct TimedRequest {
  Clock::time_point start = Clock::now(), last{};
  std::optional<double> first_ms;
  std::vector<double> gaps_ms;
  std::int64_t tokens = 0, drafted = 0, accepted = 0;
  std::string error;

  void take(std::string_view line) {
    constexpr std::string_view kData = "data: ";
    if (!line.starts_with(kData) || line == "data: [DONE]") return;
    const Json json = read_json<Json>(line.substr(kData.size()));
    if (!json.is_object()) return;
    if (json.contains("error")) error = json["error"].value("message", "the server gave no message");
    if (json.contains("usage") && json["usage"].is_object()) {
      tokens = json["usage"].value("completion_tokens", 0);
      if (json.contains("speculation")) {
        drafted = json["speculation"].value("drafted", 0),
        accepted = json["speculation"].value("accepted", 0);
      }
    }
    if (!json.contains("choices") || json["choices"].empty()) return;
    const Json& delta = json["choices"][0]["delta"];
    const bool text = (delta.contains("content") && delta["content"].is_string() && delta["content"] != "") ||
                      delta.contains("reasoning_content");
    if (!text) return;
    const Clock::time_point now = Clock::now();
    if (!first_ms) {
      first_ms = ms_between(start, now);
    } else {
      gaps_ms.push_back(ms_between(last, now));
    }
    last = now;
  }
};

std::string body_of(const ServeLoad& load, int number, bool speculative) {
  const auto prompts = built_in_prompts();
  const BuiltInPrompt& prompt = prompts[static_cast<std::size_t>(number) % prompts.size()];
  // A number at the start makes every prompt unique, so that the prefix cache never helps.
  const std::string text = fmt::format("({}) {}", number, prompt.text);
  return write_json(Json{{"messages", Json::array({Json{{"role", "user"}, {"content", text}}})},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}},
                         {"max_tokens", load.max_tokens},
                         {"temperature", load.temperature},
                         {"seed", load.seed},
                         {"speculation", speculative ? "auto" : "off"}});
}

/// Sends requests [from, from + load.requests) and adds their times.
class Side {
 public:
  Side(const ServeLoad& load, const server::Client& client, LoadSide& into)
      : load_(load), client_(client), into_(into) {}

  Status run(int from, bool speculative) {
    const Clock::time_point start = Clock::now();
    const std::int64_t before = into_.tokens;
    std::vector<double> due(static_cast<std::size_t>(load_.requests));
    std::mt19937_64 random(load_.seed + static_cast<std::uint64_t>(from));
    std::exponential_distribution<double> wait(load_.rate > 0 ? load_.rate : 1);
    double at = 0;
    for (double& moment : due) moment = load_.rate > 0 ? (at += wait(random)) : 0;
    std::vector<std::thread> clients;
    for (int i = 0; i < load_.streams; ++i) {
      clients.emplace_back([&] {
        for (int next = next_++; next < load_.requests && !failed_; next = next_++) {
          std::this_thread::sleep_until(
              start + std::chrono::duration_cast<Clock::duration>(
                          std::chrono::duration<double>(due[static_cast<std::size_t>(next)])));
          ask(from + next, speculative);
        }
      });
    }
    for (std::thread& client : clients) client.join();
    const double ms = ms_between(start, Clock::now());
    into_.aggregate.push_back(static_cast<double>(into_.tokens - before) * 1e3 / ms);
    return status_;
  }

 private:
  void ask(int number, bool speculative) {
    TimedRequest timed;
    const Result<server::ClientResponse> reply = client_.stream(
        "/v1/chat/completions", body_of(load_, number, speculative), [&](std::string_view line) {
          timed.take(line);
          return true;
        });
    const double ms = ms_between(timed.start, Clock::now());
    const std::lock_guard lock(mutex_);
    if (!reply.ok()) return fail(reply.error());
    if (reply->status != 200) {
      return fail({Code::kIo, fmt::format("the server answered {}: {}", reply->status, reply->body)});
    }
    if (!timed.error.empty()) return fail({Code::kIo, timed.error});
    into_.answers += 1, into_.tokens += timed.tokens;
    into_.drafted += timed.drafted, into_.accepted += timed.accepted;
    if (timed.first_ms) into_.first_ms.push_back(*timed.first_ms);
    into_.gap_ms.insert(into_.gap_ms.end(), timed.gaps_ms.begin(), timed.gaps_ms.end());
    into_.stream_speed.push_back(static_cast<double>(timed.tokens) * 1e3 / ms);
  }

  void fail(Error error) {
    if (!failed_.exchange(true)) status_ = std::move(error);
  }

  const ServeLoad& load_;
  const server::Client& client_;
  LoadSide& into_;
  std::mutex mutex_;
  Status status_;
  std::atomic<bool> failed_{false};
  std::atomic<int> next_{0};
};

Json side_json(const LoadSide& side) {
  return Json{
      {"answers", side.answers},
      {"tokens", side.tokens},
      {"drafted", side.drafted},
      {"accepted", side.accepted},
      {"first_token_ms", {{"p50", quantile(side.first_ms, 0.5)}, {"p99", quantile(side.first_ms, 0.99)}}},
      {"inter_token_ms", {{"p50", quantile(side.gap_ms, 0.5)}, {"p99", quantile(side.gap_ms, 0.99)}}},
      {"stream_tokens_per_second", quantile(side.stream_speed, 0.5)},
      {"aggregate_tokens_per_second", quantile(side.aggregate, 0.5)}};
}

std::vector<double> ratios(const LoadResult& result) {
  std::vector<double> all;
  for (std::size_t i = 0; i < result.plain.aggregate.size() && i < result.speculative.aggregate.size(); ++i) {
    all.push_back(result.speculative.aggregate[i] / result.plain.aggregate[i]);
  }
  return all;
}

}  // namespace

Result<LoadResult> run_load(const ServeLoad& load) {
  FT_ASSIGN(const server::Client client, server::Client::make(load.url, load.api_key));
  LoadResult result;
  LoadSide warm_up;
  ServeLoad first = load;
  first.requests = std::min(load.requests, load.streams);
  FT_TRY(Side(first, client, warm_up).run(1'000'000, true));
  for (int pair = 0; pair < load.pairs; ++pair) {
    for (const bool second : {false, true}) {  // alternating, so that each side is first equally often
      const bool speculative = second != (pair % 2 == 1);
      LoadSide& side = speculative ? result.speculative : result.plain;
      FT_TRY(
          Side(load, client, side).run((2 * pair + static_cast<int>(second)) * load.requests, speculative));
    }
  }
  return result;
}

std::string load_json(const ServeLoad& load, const LoadResult& result) {
  return write_json(Json{{"url", load.url},
                         {"streams", load.streams},
                         {"requests", load.requests},
                         {"rate", load.rate},
                         {"pairs", load.pairs},
                         {"plain", side_json(result.plain)},
                         {"speculative", side_json(result.speculative)},
                         {"aggregate_ratio", quantile(ratios(result), 0.5)}});
}

std::string load_table(const ServeLoad& load, const LoadResult& result) {
  std::string table = fmt::format(
      "{} at {}, {} requests a side, {} pairs\n\n{:<14}{:>12}{:>12}{:>12}{:>12}{:>14}{:>12}\n",
      load.rate > 0 ? fmt::format("{:g} requests/s", load.rate) : fmt::format("{} streams", load.streams),
      load.url, load.requests, load.pairs, "", "first p50", "first p99", "gap p50", "gap p99", "per stream",
      "together");
  for (const auto& [name, side] : {std::pair{"plain", &result.plain}, {"speculative", &result.speculative}}) {
    table += fmt::format("{:<14}{:>9.1f} ms{:>9.1f} ms{:>9.1f} ms{:>9.1f} ms{:>8.1f} tok/s{:>6.1f} tok/s\n",
                         name, quantile(side->first_ms, 0.5), quantile(side->first_ms, 0.99),
                         quantile(side->gap_ms, 0.5), quantile(side->gap_ms, 0.99),
                         quantile(side->stream_speed, 0.5), quantile(side->aggregate, 0.5));
  }
  const double accepted = result.speculative.drafted > 0 ? static_cast<double>(result.speculative.accepted) /
                                                               static_cast<double>(result.speculative.drafted)
                                                         : 0;
  return table +
         fmt::format(
             "\nspeculative over plain, all streams: {:.2f} x (median of {} pairs); {:.0f} % of drafts "
             "accepted\n",
             quantile(ratios(result), 0.5), load.pairs, 100 * accepted);
}

}  // namespace ft::cli
