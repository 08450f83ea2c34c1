#include "cli/commands/connection_settings.h"

#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"

namespace ft::cli {

std::string key_of(const ConnectionFacts& facts) { return facts.api_key.empty() ? "none" : facts.api_key; }

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

namespace {

using Json = nlohmann::ordered_json;

std::string context_of(const ConnectionFacts& facts) {
  return facts.context > 0 ? std::to_string(facts.context) : "as `foretoken serve` prints it";
}

/// A string quoted for TOML, YAML and JSON alike.
std::string quoted(const std::string& text) { return write_json(Json(text)); }

/// The address of this server from a container on the same machine.
std::string url_from_container(const std::string& url) {
  for (const std::string_view host : {"127.0.0.1", "localhost", "[::1]"}) {
    const std::size_t at = url.find(host);
    if (at == std::string::npos) continue;
    return url.substr(0, at) + "host.docker.internal" + url.substr(at + host.size());
  }
  return url;
}

std::string openwebui(const ConnectionFacts& facts) {
  return fmt::format(
      "Open WebUI: Admin Panel > Settings > Connections > OpenAI API > +\n"
      "  URL       {url}/v1\n"
      "  Key       {key}\n"
      "  Model IDs {model}\n"
      "\n"
      "Or through its environment, if it runs without a container:\n"
      "  export OPENAI_API_BASE_URL={shell_url} OPENAI_API_KEY={shell_key} ENABLE_OLLAMA_API=false\n"
      "\n"
      "From a container, this server is on another machine. Make it listen to the network\n"
      "(foretoken serve --host 0.0.0.0 --api-key KEY --allow-host host.docker.internal) and\n"
      "start the container with\n"
      "  --add-host=host.docker.internal:host-gateway\n"
      "  -e OPENAI_API_BASE_URL={container}/v1 -e OPENAI_API_KEY={shell_key} -e ENABLE_OLLAMA_API=false\n",
      fmt::arg("url", facts.url), fmt::arg("key", key_of(facts)), fmt::arg("model", facts.model),
      fmt::arg("shell_url", shell_quoted(facts.url + "/v1")),
      fmt::arg("shell_key", shell_quoted(key_of(facts))),
      fmt::arg("container", url_from_container(facts.url)));
}

std::string cline(const ConnectionFacts& facts) {
  return fmt::format(
      "Cline and Roo Code: Settings > API Configuration\n"
      "  API Provider         OpenAI Compatible\n"
      "  Base URL             {}/v1\n"
      "  API Key              {}\n"
      "  Model ID             {}\n"
      "  Context Window Size  {}\n"
      "  Supports Images      off\n"
      "{}",
      facts.url, key_of(facts), facts.model, context_of(facts),
      facts.context > 0 && facts.context < 32768
          ? "\nTheir prompts have more than 10,000 tokens: start the server with --context 32768 or more.\n"
          : "");
}

std::string continue_dev(const ConnectionFacts& facts) {
  std::string lengths;
  if (facts.context > 0) {
    lengths = fmt::format("    defaultCompletionOptions:\n      contextLength: {}\n      maxTokens: {}\n",
                          facts.context, facts.answer());
  }
  return fmt::format(
      "# Continue: ~/.continue/config.yaml\n"
      "name: foretoken\n"
      "version: 0.0.1\n"
      "schema: v1\n"
      "models:\n"
      "  - name: foretoken\n"
      "    provider: openai\n"
      "    model: {}\n"
      "    apiBase: {}\n"
      "    apiKey: {}\n"
      "    roles: [chat, edit, apply]\n"
      "{}"
      "# For autocomplete, add the role `autocomplete` and use a model trained to fill in the middle.\n",
      quoted(facts.model), quoted(facts.url + "/v1"), quoted(key_of(facts)), lengths);
}

std::string opencode(const ConnectionFacts& facts) {
  return "// OpenCode: opencode.json of the project, or ~/.config/opencode/opencode.json\n" +
         write_json(opencode_settings(facts), 2) + "\n";
}

std::string codex(const ConnectionFacts& facts) {
  const std::string window =
      facts.context > 0 ? fmt::format("model_context_window = {}\n", facts.context) : "";
  const std::string key = facts.api_key.empty()
                              ? ""
                              : fmt::format("env_key = \"LOCAL_API_KEY\"  # export LOCAL_API_KEY={}\n",
                                            shell_quoted(facts.api_key));
  return fmt::format(
      "# Codex: ~/.codex/config.toml\n"
      "model = {}\n"
      "model_provider = \"foretoken\"\n"
      "{}"
      "\n"
      "[model_providers.foretoken]\n"
      "name = \"foretoken\"\n"
      "base_url = {}\n"
      "wire_api = \"responses\"\n"
      "{}",
      quoted(facts.model), window, quoted(facts.url + "/v1"), key);
}

std::string claude_code(const ConnectionFacts& facts) {
  const std::int64_t window = claude_code_window(facts);
  return fmt::format(
      "# Claude Code: in the shell that starts it\n"
      "export ANTHROPIC_BASE_URL={url}\n"
      "export ANTHROPIC_AUTH_TOKEN={key}\n"
      "export ANTHROPIC_MODEL={model} ANTHROPIC_DEFAULT_OPUS_MODEL={model}\n"
      "export ANTHROPIC_DEFAULT_SONNET_MODEL={model} ANTHROPIC_DEFAULT_HAIKU_MODEL={model}\n"
      "export CLAUDE_CODE_ATTRIBUTION_HEADER=0          # its line changes with every request: prefixes "
      "miss\n"
      "export CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS=1\n"
      "export CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1\n"
      "{window}"
      "claude\n"
      "{context}",
      fmt::arg("url", shell_quoted(facts.url)), fmt::arg("key", shell_quoted(key_of(facts))),
      fmt::arg("model", shell_quoted(facts.model)),
      fmt::arg("window",
               window == 0 ? "" : fmt::format("export CLAUDE_CODE_MAX_CONTEXT_TOKENS={}\n", window)),
      fmt::arg(
          "context",
          facts.context == 0
              ? ""
              : fmt::format(
                    "# The server's context is {} tokens; Claude Code compacts when a prompt is longer{}.\n",
                    facts.context,
                    window == 0 ? ".\n# That is short for Claude Code: start the server with "
                                  "--context 65536 or fewer --slots"
                                : "")));
}

std::string sdk(const ConnectionFacts& facts) {
  const std::string url = quoted(facts.url + "/v1"), key = quoted(key_of(facts)), model = quoted(facts.model);
  return fmt::format(
      "# Python, pip install openai\n"
      "from openai import OpenAI\n"
      "client = OpenAI(base_url={url}, api_key={key})\n"
      "answer = client.chat.completions.create(\n"
      "    model={model}, messages=[{{\"role\": \"user\", \"content\": \"Hello\"}}])\n"
      "print(answer.choices[0].message.content)\n"
      "\n"
      "// JavaScript, npm install openai\n"
      "import OpenAI from \"openai\";\n"
      "const client = new OpenAI({{ baseURL: {url}, apiKey: {key} }});\n"
      "\n"
      "# Python, pip install anthropic\n"
      "from anthropic import Anthropic\n"
      "client = Anthropic(base_url={root}, api_key={key})\n"
      "\n"
      "# Any program that reads the OPENAI_ variables\n"
      "export OPENAI_BASE_URL={shell_url} OPENAI_API_KEY={shell_key}\n",
      fmt::arg("url", url), fmt::arg("key", key), fmt::arg("model", model),
      fmt::arg("root", quoted(facts.url)), fmt::arg("shell_url", shell_quoted(facts.url + "/v1")),
      fmt::arg("shell_key", shell_quoted(key_of(facts))));
}

struct Client {
  std::string_view name;
  std::string (*settings)(const ConnectionFacts&);
};
constexpr std::array<Client, 7> kClients{{{"openwebui", openwebui},
                                          {"cline", cline},
                                          {"continue", continue_dev},
                                          {"opencode", opencode},
                                          {"codex", codex},
                                          {"claude-code", claude_code},
                                          {"sdk", sdk}}};

}  // namespace

std::int64_t claude_code_window(const ConnectionFacts& facts) {
  constexpr std::int64_t kMinWindow = 65536;
  return facts.context >= kMinWindow ? facts.context : 0;
}

Json opencode_settings(const ConnectionFacts& facts) {
  Json model{{"name", facts.model}};
  if (facts.context > 0) model["limit"] = Json{{"context", facts.context}, {"output", facts.answer()}};
  return {{"$schema", "https://opencode.ai/config.json"},
          {"provider",
           {{"foretoken",
             {{"npm", "@ai-sdk/openai-compatible"},
              {"name", "foretoken"},
              {"options", {{"baseURL", facts.url + "/v1"}, {"apiKey", key_of(facts)}}},
              {"models", {{facts.model, model}}}}}}},
          {"model", "foretoken/" + facts.model}};
}

std::vector<std::string> connected_clients() {
  std::vector<std::string> names;
  for (const Client& client : kClients) names.emplace_back(client.name);
  return names;
}

std::string connection_settings(const std::string& name, const ConnectionFacts& facts) {
  for (const Client& client : kClients) {
    if (client.name == name) return client.settings(facts);
  }
  return {};
}

}  // namespace ft::cli
