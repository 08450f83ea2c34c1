// The members of a request's body that each route knows: the ones it reads, and members of the hosted service
// that it ignores on purpose. A member that refers to a conversation stored elsewhere is refused, since an
// answer without that conversation would be wrong. Any other member is noted, or refused if the server is
// strict, with the nearest known name. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "api/json.h"
#include "api/notes.h"
#include "base/result.h"

namespace ft::api {

enum class Body { kChat, kCompletions, kResponses, kMessages };

/// kUnsupported for a member that carries history, kInvalid for an unknown one if `strict`; both name it.
Status check_members(const Json& body, Body kind, bool strict, Notes& notes);

/// The known member nearest to `name` by edit distance, or one with the same words.
std::string_view nearest_member(Body kind, std::string_view name);

}  // namespace ft::api
