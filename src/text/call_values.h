// Values of a call whose tool has alternatives of parameters (anyOf or oneOf of objects). Whether `7` is a
// number or a text may depend on the parameters after it, so all values wait for the call's end, and the
// first alternative that the whole call follows decides. Cost: one conversion for each alternative.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/tool_schema.h"

namespace ft {

struct CallValue {
  std::string name, text;  // as they were written
};

/// Turns the text of a value into JSON of a type; a chat format's own.
using ValueReader = std::string (*)(std::string_view text, const ParameterType& type);

/// The arguments as one JSON object.
std::string arguments_of_call(const ToolSchemas& schemas, std::string_view tool,
                              std::span<const CallValue> values, ValueReader reader);

/// The beginning of that object for a call that was cut, without its end. `begun`: the value that was being
/// written, read by `cut_reader`; null: none.
std::string arguments_of_cut_call(const ToolSchemas& schemas, std::string_view tool,
                                  std::span<const CallValue> values, const CallValue* begun,
                                  ValueReader reader, ValueReader cut_reader);

}  // namespace ft
