#include "cli/commands/connection_settings.h"

#include <algorithm>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <toml++/toml.h>
#include <utility>

#include "cli/commands/launch_clients.h"

namespace ft::cli::connection_settings_test {
namespace {

const ConnectionFacts kFacts{"http://127.0.0.1:8080", "tiny \"model\"", 4096, "it's secret"};

TEST(ConnectionSettings, EveryClientIsToldWhereAndWhat) {
  for (const std::string& client : connected_clients()) {
    const std::string text = connection_settings(client, {"http://127.0.0.1:9", "tiny", 0, ""});
    EXPECT_NE(text.find("http://127.0.0.1:9"), std::string::npos) << client;
    EXPECT_NE(text.find("tiny"), std::string::npos) << client;
    EXPECT_TRUE(text.ends_with("\n")) << client;
    EXPECT_EQ(text.find("127.0.0.1:9/v1/v1"), std::string::npos) << client;
  }
  EXPECT_EQ(connected_clients().size(), 7U);
  EXPECT_EQ(connection_settings("emacs", kFacts), "");
}

TEST(ConnectionSettings, OpenCodesAreJson) {
  const std::string text = connection_settings("opencode", kFacts);
  const nlohmann::json json = nlohmann::json::parse(text.substr(text.find('\n')));
  EXPECT_EQ(json["model"], "foretoken/tiny \"model\"");
  EXPECT_EQ(json["provider"]["foretoken"]["models"]["tiny \"model\""]["limit"]["output"], 1024);
  EXPECT_EQ(json["provider"]["foretoken"]["options"]["baseURL"], "http://127.0.0.1:8080/v1");
}

TEST(ConnectionSettings, CodexsAreTomlThatSpeaksResponses) {
  const toml::table table = toml::parse(connection_settings("codex", kFacts));
  EXPECT_EQ(table["model"].value<std::string>(), "tiny \"model\"");
  EXPECT_EQ(table["model_context_window"].value<int>(), 4096);
  EXPECT_EQ(table["model_providers"]["foretoken"]["wire_api"].value<std::string>(), "responses");
  EXPECT_EQ(table["model_providers"]["foretoken"]["env_key"].value<std::string>(), "LOCAL_API_KEY");
}

TEST(ConnectionSettings, AContainerIsSentToItsHost) {
  EXPECT_NE(connection_settings("openwebui", kFacts).find("--allow-host host.docker.internal"),
            std::string::npos);
  EXPECT_NE(connection_settings("openwebui", kFacts).find("http://host.docker.internal:8080/v1"),
            std::string::npos);
}

TEST(ConnectionSettings, WhatAShellWouldReadIsQuoted) {
  const std::string text = connection_settings("claude-code", kFacts);
  EXPECT_NE(text.find(R"(ANTHROPIC_AUTH_TOKEN='it'\''s secret')"), std::string::npos);
  EXPECT_EQ(text.find("ANTHROPIC_BASE_URL='http://127.0.0.1:8080/v1"), std::string::npos);
}

TEST(ConnectionSettings, ClaudeCodeIsToldAWindowInWhichItDoesNotCompactInEveryTurn) {
  ConnectionFacts facts = kFacts;
  for (const auto& [context, told] :
       std::map<std::int64_t, bool>{{0, false}, {32768, false}, {65536, true}}) {
    facts.context = context;
    const std::string line = fmt::format("CLAUDE_CODE_MAX_CONTEXT_TOKENS={}\n", context);
    EXPECT_EQ(connection_settings("claude-code", facts).find(line) != std::string::npos, told) << context;
    const auto variables = launch_plan("claude", facts).variables;
    EXPECT_EQ(std::ranges::count(variables, "CLAUDE_CODE_MAX_CONTEXT_TOKENS",
                                 &std::pair<std::string, std::string>::first),
              told ? 1 : 0);
  }
}

}  // namespace
}  // namespace ft::cli::connection_settings_test
