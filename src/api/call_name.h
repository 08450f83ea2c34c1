// The client's name of an offered tool whose calls have another name or form than a function's: a member of a
// namespace (OpenAI) or of a toolset (Anthropic), or a tool that is part of the client.
#pragma once

#include <string>

namespace ft::api {

struct CallName {
  std::string space;        // the namespace or the toolset, or empty
  std::string name;         // in the namespace
  std::string client_tool;  // the type of a tool that is part of the client, or empty
};

/// "space__name", as the model sees it; the name alone without a space.
inline std::string joined_name(const std::string& space, const std::string& name) {
  if (space.empty()) return name;
  return space + (space.ends_with("__") ? "" : "__") + name;
}

}  // namespace ft::api
