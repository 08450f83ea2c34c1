// SchemaGraph: a JSON schema whose references and combinations are resolved. Each node is a union of shapes,
// and a shape is one kind of value with all its conditions: "$ref", allOf, anyOf, oneOf, const, enum,
// nullable and lists of types are gone. Chat formats, the grammar and the conversion of values read it.
// References are RFC 6901 pointers into the schema; recursion gives cycles in the graph. Immutable after
// build(); any thread. Cost: linear in usual schemas; combinations that multiply are bounded by kMaxShapes
// and kMaxSchemaNodes. Only .cpp files of text/ include this header, since it holds JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft {

enum class JsonKind : uint8_t { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject };

inline constexpr size_t kMaxSchemaNodes = 4096;  // of one graph
inline constexpr size_t kMaxShapes = 256;        // of one node, before identical ones are joined
// Work for one graph, so that building it takes less than a second:
inline constexpr size_t kMaxChoices = 20'000;         // of members of anyOf and oneOf
inline constexpr size_t kMaxMatches = 1'000;          // of texts with patterns
inline constexpr uint64_t kMaxMatchWork = 1'000'000;  // of these, in units of pattern.h
inline constexpr size_t kMaxProperties = 50'000;      // of all shapes, and values of enumerations
inline constexpr size_t kMaxCompared = 1'000'000;     // properties of members of oneOf

/// The work for all schemas of one request, in parts of the limits of one graph: choices, properties, matches
/// and comparisons. Beyond kMax the later schemas are broken.
struct SchemaWork {
  static constexpr double kMax = 8;
  double spent = 0;
};

struct SchemaShape {
  static constexpr int kNever = -1;  // no further items or properties
  static constexpr uint64_t kNoLimit = UINT64_MAX;

  struct Property {
    std::string name;
    int node = kNever;
    bool required = false;

    bool operator==(const Property&) const = default;
  };

  JsonKind kind = JsonKind::kNull;
  /// kInteger and kNumber: minimum, maximum, exclusiveMinimum, exclusiveMaximum and a list of multipleOf.
  /// kString: lists of pattern and format. Empty: unlimited.
  nlohmann::ordered_json limits = nlohmann::ordered_json::object();
  uint64_t min = 0, max = kNoLimit;                   // characters, items or properties
  std::vector<Property> properties;                   // in the schema's order
  std::vector<std::pair<std::string, int>> patterns;  // patternProperties
  std::vector<int> prefix;                            // the first items
  int rest = 0;       // other properties or items: a node, 0 (anything) or kNever
  int names = 0;      // a node that the name of each property follows; 0: any name
  bool open = false;  // the schema itself defines other properties

  /// The schema has conditions on other properties or on their names.
  bool describes_others() const { return rest != 0 || names != 0 || !patterns.empty(); }

  bool operator==(const SchemaShape&) const = default;
};

struct SchemaNode {
  bool anything = false;  // no shapes and no literals are needed
  std::vector<nlohmann::ordered_json> literals;
  std::vector<SchemaShape> shapes;

  bool allows(JsonKind kind) const;
  bool impossible() const { return !anything && literals.empty() && shapes.empty(); }
};

class SchemaGraph {
 public:
  using Json = nlohmann::ordered_json;
  static constexpr int kAnything = 0;  // the node of the schema `true`

  /// The graph of a value of any kind, or of an object (the parameters of a tool).
  static SchemaGraph build(const Json& schema, bool object, SchemaWork* work = nullptr);

  const SchemaNode& node(int id) const { return nodes_[static_cast<size_t>(id)]; }
  int root() const { return root_; }
  size_t size() const { return nodes_.size(); }

  /// The faults of the schema, each naming its keyword; may be empty. `broken`: impossible; `unenforced`: may
  /// not hold in the answer; a lost reference is dangling: it allows anything.
  const std::vector<std::string>& broken() const { return broken_; }
  /// A schema without a fault that no value follows; broken() says so too.
  bool allows_nothing() const { return allows_nothing_; }
  const std::vector<std::string>& lost() const { return lost_; }
  const std::vector<std::string>& unenforced() const { return unenforced_; }

  /// True if `value` follows the node; patterns and formats of strings are taken to match.
  bool fits(const Json& value, int id) const;
  /// The same for one shape.
  bool fits(const Json& value, const SchemaShape& shape) const;

 private:
  friend class SchemaBuilder;
  /// Results of one call: unions inside each other would multiply.
  using Known = std::map<std::pair<const Json*, int>, bool>;
  bool fits(const Json& value, int id, Known& known) const;
  bool fits(const Json& value, const SchemaShape& shape, Known& known) const;

  std::vector<SchemaNode> nodes_;
  std::vector<std::string> broken_, lost_, unenforced_;
  int root_ = kAnything;
  bool allows_nothing_ = false;
};

}  // namespace ft
