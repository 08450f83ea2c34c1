// The name, context and address of a running server's model: for `connect` and `launch`.
#pragma once

#include "base/result.h"
#include "cli/commands/connection_settings.h"
#include "server/client.h"

namespace ft::cli {

/// Replaces the model's name in settings if it is unknown.
inline constexpr const char* kUnknownModel = "MODEL";

/// Id and context of the first model that the server lists, or an error that says why there is none: kBusy
/// while it loads, kUnsupported if it is not a server of models.
Status ask_served_model(const server::Client& client, ConnectionFacts& facts);
/// The same of the model that is called `name`, after ask_served_model(); kInvalid if the server lacks it.
Status choose_served_model(const server::Client& client, const std::string& name, ConnectionFacts& facts);

}  // namespace ft::cli
