// Reasoning in the form that clients without stored responses keep and send back (encrypted_content). It is
// the client's own text, so it is encoded and not secret; a checksum detects damage. It stays readable
// after a restart and on other servers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ft::api {

std::string seal_reasoning(std::string_view reasoning);
/// The reasoning; nullopt for content of another service and for damaged content.
std::optional<std::string> open_reasoning(std::string_view sealed);

}  // namespace ft::api
