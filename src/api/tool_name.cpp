#include "api/tool_name.h"

#include <fmt/format.h>

#include "base/printable.h"

namespace ft::api {

Status check_tool_name(const std::string& at, const std::string& name) {
  const std::string shown = escape_controls(name);
  if (shown == name) return {};
  return wrong(at, fmt::format("\"{}\" has a control character; give the tool a name without", shown));
}

Result<std::string> read_tool_name(const Fields& fields) {
  FT_ASSIGN(const auto name, fields.text("name"));
  if (!name || name->empty()) return wrong(fields.at("name"), "is missing; each tool has a name");
  FT_TRY(check_tool_name(fields.at("name"), *name));
  return *name;
}

}  // namespace ft::api
