// The settings that connect each client to this server, as text to type or paste. They follow each client's
// documentation; docs/clients.md describes what to expect.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace ft::cli {

struct ConnectionFacts {
  std::string url;       // http://127.0.0.1:8080, without /v1
  std::string model;     // the id that clients send
  std::int64_t context;  // tokens of prompt and answer; 0: unknown
  std::string api_key;   // empty: the server needs none
  std::int64_t answer() const {
    return context > 0 ? (context + 3) / 4 : 0;
  }  // tokens reserved for an answer
};

/// The key that clients send: they require one, and a server without keys accepts any.
std::string key_of(const ConnectionFacts& facts);
/// A string quoted for a shell.
std::string shell_quoted(const std::string& text);

/// The window that Claude Code is told, since it takes an unknown model for one of a million tokens and would
/// compact too late; 0: none. In a window under 65,536 tokens it compacts in every turn.
std::int64_t claude_code_window(const ConnectionFacts& facts);

/// The clients that connection_settings() supports.
std::vector<std::string> connected_clients();

/// OpenCode's settings, without which it asks for a provider.
nlohmann::ordered_json opencode_settings(const ConnectionFacts& facts);

/// The settings of one client.
std::string connection_settings(const std::string& client, const ConnectionFacts& facts);

}  // namespace ft::cli
