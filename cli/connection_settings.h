// What a person types or pastes to make a client use this server, one text for each client. Pure. Thread:
// any. Errors: none. Sources: each client's documentation; docs/clients.md says what to expect of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ft::cli {

struct ConnectionFacts {
  std::string url;       // http://127.0.0.1:8080, without /v1
  std::string model;     // the id that clients send
  std::int64_t context;  // tokens of prompt and answer; 0: not known
  std::string api_key;   // empty: the server asks for none
  std::int64_t answer() const { return context > 0 ? (context + 3) / 4 : 0; }  // tokens to leave for one
};

/// The names that connection_settings() knows.
std::vector<std::string> connected_clients();

/// The settings of one of them.
std::string connection_settings(const std::string& client, const ConnectionFacts& facts);

}  // namespace ft::cli
