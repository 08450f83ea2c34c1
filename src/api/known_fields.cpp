#include "api/known_fields.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <vector>

namespace ft::api {
namespace {

using Names = std::span<const std::string_view>;

/// In every dialect: sampling and foretoken's own.
constexpr std::string_view kShared[] = {"model",
                                        "stream",
                                        "temperature",
                                        "top_p",
                                        "top_k",
                                        "min_p",
                                        "seed",
                                        "speculation",
                                        "acceptance",
                                        "drafter",
                                        "depth",
                                        "metadata",
                                        "service_tier",
                                        "stream_speculation",
                                        "stream_options",
                                        "repetition_penalty",
                                        "presence_penalty",
                                        "frequency_penalty"};
constexpr std::string_view kOpenAi[] = {"user",
                                        "store",
                                        "stop",
                                        "n",
                                        "logit_bias",
                                        "prompt_cache_key",
                                        "prompt_cache_options",
                                        "prompt_cache_retention",
                                        "safety_identifier",
                                        "moderation"};
constexpr std::string_view kChat[] = {"messages",
                                      "tools",
                                      "tool_choice",
                                      "parallel_tool_calls",
                                      "functions",
                                      "function_call",
                                      "response_format",
                                      "prediction",
                                      "max_tokens",
                                      "max_completion_tokens",
                                      "logprobs",
                                      "top_logprobs",
                                      "reasoning_effort",
                                      "chat_template_kwargs",
                                      "modalities",
                                      "thinking_budget",
                                      "audio",
                                      "web_search_options",
                                      "verbosity"};
constexpr std::string_view kCompletions[] = {"prompt", "suffix", "max_tokens", "logprobs", "echo", "best_of"};
constexpr std::string_view kResponses[] = {"input",
                                           "instructions",
                                           "tools",
                                           "tool_choice",
                                           "parallel_tool_calls",
                                           "previous_response_id",
                                           "reasoning",
                                           "text",
                                           "include",
                                           "max_output_tokens",
                                           "max_tool_calls",
                                           "top_logprobs",
                                           "truncation",
                                           "background",
                                           "chat_template_kwargs",
                                           "thinking_budget",
                                           "background_options",
                                           "context_management",
                                           "client_metadata",
                                           "access_programs",
                                           "image"};
constexpr std::string_view kMessages[] = {
    "messages",        "system",        "max_tokens",    "stop_sequences",
    "tools",           "tool_choice",   "thinking",      "output_config",
    "output_format",   "cache_control", "betas",         "context_management",
    "compaction",      "mcp_servers",   "inference_geo", "speed",
    "billing_policy",  "diagnostics",   "fallbacks",     "fallback_credit_token",
    "user_profile_id", "workspace_id"};

/// Conversations that are kept elsewhere.
constexpr std::string_view kHistories[] = {
    "conversation",        "conversation_id",      "thread",    "thread_id",
    "previous_message_id", "previous_response_id", "container", "prompt"};

std::vector<std::string_view> members_of(Body kind) {
  std::vector<std::string_view> all(std::begin(kShared), std::end(kShared));
  const auto add = [&all](Names names) { all.insert(all.end(), names.begin(), names.end()); };
  if (kind != Body::kMessages) add(kOpenAi);
  switch (kind) {
    case Body::kChat:
      add(kChat);
      break;
    case Body::kCompletions:
      add(kCompletions);
      break;
    case Body::kResponses:
      add(kResponses);
      break;
    case Body::kMessages:
      add(kMessages);
      break;
  }
  return all;
}

/// Levenshtein's distance. Cost: the product of the lengths, which are cut.
int distance(std::string_view a, std::string_view b) {
  constexpr std::size_t kLongest = 64;
  a = a.substr(0, kLongest), b = b.substr(0, kLongest);
  std::array<int, kLongest + 1> row{};
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// True if each word of `name` begins a word of `known`: max_token and max_output_tokens.
bool has_words_of(std::string_view known, std::string_view name) {
  for (std::size_t from = 0; from <= name.size();) {
    const std::size_t end = std::min(name.find('_', from), name.size());
    const std::string_view word = name.substr(from, end - from);
    std::size_t at = known.find(word);
    while (at != std::string_view::npos && at > 0 && known[at - 1] != '_') at = known.find(word, at + 1);
    if (word.empty() || at == std::string_view::npos) return false;
    from = end + 1;
  }
  return true;
}

}  // namespace

std::string_view nearest_member(Body kind, std::string_view name) {
  std::string_view best;
  constexpr int kFar = std::numeric_limits<int>::max();
  int least = kFar;
  for (const std::string_view known : members_of(kind)) {
    const int away = std::min(distance(name, known), has_words_of(known, name) ? 2 : kFar);
    if (away < least) least = away, best = known;
  }
  return best;
}

Status check_members(const Json& body, Body kind, bool strict, Notes& notes) {
  const std::vector<std::string_view> known = members_of(kind);
  for (const auto& [name, value] : body.items()) {
    if (std::ranges::find(known, name) != known.end() || value.is_null()) continue;
    if (std::ranges::find(kHistories, name) != std::end(kHistories)) {
      return Error{Code::kUnsupported,
                   fmt::format("{}: this server stores no conversations; send all messages, without \"{}\"",
                               name, name),
                   name};
    }
    if (strict) {
      return Error{Code::kInvalid,
                   fmt::format("{}: unknown field; the nearest known one is \"{}\" (this server runs with "
                               "--strict-fields)",
                               name, nearest_member(kind, name)),
                   name};
    }
    notes.unknown.push_back(name);
  }
  return {};
}

}  // namespace ft::api
