#include "cli/commands/launch_clients.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A string of TOML.
std::string json_text(const std::string& text) { return write_json(Json(text)); }

LaunchPlan claude(const ConnectionFacts& facts) {
  LaunchPlan plan{
      "claude",
      {},
      {{"ANTHROPIC_BASE_URL", facts.url},
       {"ANTHROPIC_AUTH_TOKEN", key_of(facts)},
       {"ANTHROPIC_MODEL", facts.model},
       {"ANTHROPIC_DEFAULT_OPUS_MODEL", facts.model},
       {"ANTHROPIC_DEFAULT_SONNET_MODEL", facts.model},
       {"ANTHROPIC_DEFAULT_HAIKU_MODEL", facts.model},
       {"CLAUDE_CODE_ATTRIBUTION_HEADER", "0"},  // its line changes with every request: prefixes miss
       {"CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS", "1"},
       {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"}},
      {"ANTHROPIC_API_KEY"}};
  if (const std::int64_t window = claude_code_window(facts); window > 0)
    plan.variables.emplace_back("CLAUDE_CODE_MAX_CONTEXT_TOKENS", std::to_string(window));
  return plan;
}

LaunchPlan launch_codex(const ConnectionFacts& facts) {
  LaunchPlan plan{"codex", {}, {}, {}};
  const auto set = [&plan](const std::string& setting) {
    plan.arguments.insert(plan.arguments.end(), {"-c", setting});
  };
  const std::string provider = "model_providers.foretoken.";
  set("model=" + json_text(facts.model));
  set("model_provider=\"foretoken\"");
  set(provider + "name=\"foretoken\"");
  set(provider + "base_url=" + json_text(facts.url + "/v1"));
  set(provider + "wire_api=\"responses\"");
  if (facts.context > 0) set(fmt::format("model_context_window={}", facts.context));
  if (!facts.api_key.empty()) {
    set(provider + "env_key=\"FORETOKEN_CLIENT_KEY\"");
    plan.variables.emplace_back("FORETOKEN_CLIENT_KEY", facts.api_key);
  }
  return plan;
}

LaunchPlan launch_opencode(const ConnectionFacts& facts) {
  return {"opencode", {}, {{"OPENCODE_CONFIG_CONTENT", write_json(opencode_settings(facts))}}, {}};
}

LaunchPlan qwen(const ConnectionFacts& facts) {
  return {"qwen",
          {"--auth-type", "openai"},
          {{"OPENAI_BASE_URL", facts.url + "/v1"},
           {"OPENAI_API_KEY", key_of(facts)},
           {"OPENAI_MODEL", facts.model}},
          {}};
}

LaunchPlan goose(const ConnectionFacts& facts) {
  return {"goose",
          {},
          {{"GOOSE_PROVIDER", "openai"},
           {"GOOSE_MODEL", facts.model},
           {"GOOSE_DISABLE_KEYRING", "1"},
           {"OPENAI_HOST", facts.url},
           {"OPENAI_API_KEY", key_of(facts)}},
          {"OPENAI_BASE_URL", "OPENAI_BASE_PATH"}};
}

LaunchPlan aider(const ConnectionFacts& facts) {
  return {"aider",
          {"--model", "openai/" + facts.model, "--no-show-model-warnings"},
          {{"OPENAI_API_BASE", facts.url + "/v1"}, {"OPENAI_API_KEY", key_of(facts)}},
          {}};
}

LaunchPlan launch_openwebui(const ConnectionFacts& facts) {
  return {"open-webui",
          {"serve"},
          {{"OPENAI_API_BASE_URL", facts.url + "/v1"},
           {"OPENAI_API_KEY", key_of(facts)},
           {"ENABLE_OLLAMA_API", "false"},
           {"DEFAULT_MODELS", facts.model}},
          {}};
}

struct LaunchClient {
  std::string_view name, program, installation;
  std::int64_t needed_context;
  LaunchPlan (*plan)(const ConnectionFacts&);
};
constexpr std::array<LaunchClient, 7> kLaunchClients{
    {{"claude", "claude", "npm install -g @anthropic-ai/claude-code", 32768, claude},
     {"codex", "codex", "npm install -g @openai/codex", 32768, launch_codex},
     {"opencode", "opencode", "npm install -g opencode-ai", 32768, launch_opencode},
     {"qwen", "qwen", "npm install -g @qwen-code/qwen-code", 32768, qwen},
     {"goose", "goose", "pipx install goose-ai, or see github.com/block/goose", 16384, goose},
     {"aider", "aider", "pipx install aider-chat", 8192, aider},
     {"openwebui", "open-webui", "pipx install open-webui", 0, launch_openwebui}}};

const LaunchClient& client_named(std::string_view name) {
  return *std::ranges::find(kLaunchClients, name, &LaunchClient::name);
}

}  // namespace

std::vector<std::string> launched_clients() {
  std::vector<std::string> names;
  for (const LaunchClient& client : kLaunchClients) names.emplace_back(client.name);
  return names;
}

LaunchPlan launch_plan(std::string_view client, const ConnectionFacts& facts) {
  return client_named(client).plan(facts);
}
std::string program_of(std::string_view client) { return std::string(client_named(client).program); }
std::string installation_of(std::string_view client) {
  return std::string(client_named(client).installation);
}
std::int64_t needed_context(std::string_view client) { return client_named(client).needed_context; }

}  // namespace ft::cli
