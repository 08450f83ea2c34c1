// The name of a tool that a request defines, as both APIs take it. It reaches logs, terminals and templates,
// so a name with control characters is refused with kInvalid, which names the field and shows the name.
#pragma once

#include <string>

#include "api/fields.h"

namespace ft::api {

/// `at`: the field that holds it.
Status check_tool_name(const std::string& at, const std::string& name);
/// The member "name", which must exist and not be empty.
Result<std::string> read_tool_name(const Fields& fields);

}  // namespace ft::api
