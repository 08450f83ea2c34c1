// Feeds arbitrary schemas to the resolver and to the rules of JSON: nothing crashes or hangs, the result is
// bounded, and each enumerated value of the schema follows it or was left out.
#include <cstdlib>

#include "base/json.h"
#include "text/json_text.h"
#include "text/schema_graph.h"
#include "text/schema_lark.h"
#include "text/tool_schema.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!ft::is_json(text, 64)) return 0;
  const Json schema = ft::read_json<Json>(text);
  if (!schema.is_object() && !schema.is_boolean()) return 0;
  for (const bool object : {false, true}) {
    const ft::SchemaGraph graph = ft::SchemaGraph::build(schema, object);
    if (graph.size() > ft::kMaxSchemaNodes) std::abort();
    for (size_t id = 0; id < graph.size(); ++id) {
      const ft::SchemaNode& node = graph.node(static_cast<int>(id));
      if (node.shapes.size() > 7 * (ft::kMaxShapes + 1)) std::abort();
      for (const Json& value : node.literals) {
        if (!graph.fits(value, static_cast<int>(id))) std::abort();
      }
    }
    (void)graph.fits(schema, graph.root());
    std::string lark;
    ft::SchemaLark rules(graph, ft::kJsonNotation, "f", lark);
    rules.value(graph.root());
    rules.finish();
  }
  const Json tools = Json::array({{{"name", "f"}, {"parameters", schema}}});
  const auto schemas = ft::ToolSchemas::parse(ft::write_json(tools));
  if (!schemas.ok()) return 0;
  for (const char* value : {"1", "x", "null", "{\"a\": [1]}", ""}) {
    const auto type = schemas->type_of("f", "a");
    if (!ft::is_json(ft::json_of_parameter(value, type), 100)) std::abort();
    (void)ft::cut_json_of_parameter(value, type);
  }
  return 0;
}
