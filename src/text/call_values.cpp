#include "text/call_values.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/json_text.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

/// `{"a":1,"b":2`, with types that `type_of(name)` gives.
template <class TypeOf>
std::string begun_object(std::span<const CallValue> values, ValueReader reader, TypeOf type_of) {
  std::string all = "{";
  for (const CallValue& value : values) {
    if (all.size() > 1) all += ',';
    all += json_quoted(value.name) + ":" + reader(value.text, type_of(value.name));
  }
  return all;
}

}  // namespace

std::string arguments_of_call(const ToolSchemas& schemas, std::string_view tool,
                              std::span<const CallValue> values, ValueReader reader) {
  for (size_t i = 0; i < schemas.alternatives(tool); ++i) {
    const auto type_of = [&](std::string_view name) { return schemas.type_of(tool, name, i); };
    const std::string object = begun_object(values, reader, type_of) + "}";
    if (schemas.fits(tool, i, read_json<Json>(object))) return object;
  }
  const auto type_of = [&](std::string_view name) { return schemas.type_of(tool, name); };
  return begun_object(values, reader, type_of) + "}";
}

std::string arguments_of_cut_call(const ToolSchemas& schemas, std::string_view tool,
                                  std::span<const CallValue> values, const CallValue* begun,
                                  ValueReader reader, ValueReader cut_reader) {
  if (values.empty() && begun == nullptr) return {};
  const auto type_of = [&](std::string_view name) { return schemas.type_of(tool, name); };
  std::string object = begun_object(values, reader, type_of);
  if (begun == nullptr) return object;
  object += values.empty() ? "" : ",";
  return object + json_quoted(begun->name) + ":" + cut_reader(begun->text, type_of(begun->name));
}

}  // namespace ft
