// Toolsets of Anthropic's API: computer_toolset_DATE and browser_toolset_DATE are each a family of tools
// that the client runs. Each enabled member becomes a function with its documented parameters, and its calls
// have the family as toolset_name. Source: Anthropic's API reference, "Tool reference".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/json.h"
#include "base/result.h"

namespace ft::api {

/// "computer" or "browser" for a toolset with a date; nullopt for other types, such as mcp_toolset.
std::optional<std::string> toolset_family(std::string_view type);

/// The members {name, description, parameters} that `configs` of this entry of `tools` leave enabled. Errors
/// name the member of `configs`.
Result<std::vector<Json>> toolset_members(const std::string& family, const Json& tool,
                                          const std::string& path);

}  // namespace ft::api
