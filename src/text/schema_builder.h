// SchemaBuilder: makes a SchemaGraph. A node is a conjunction of schemas. flatten() turns it into
// alternatives without "$ref", allOf, anyOf and oneOf; merge() turns each alternative into shapes. Nodes wait
// in a list, so that deep and recursive schemas need no deep stack.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/schema_graph.h"
#include "text/schema_places.h"

namespace ft {

class SchemaBuilder {
 public:
  using Json = nlohmann::ordered_json;
  using Schemas = std::vector<const Json*>;  // all of them hold

  /// For each list of oneOf whose members overlap: the additional conditions that make each member distinct.
  using Splits = std::map<const Json*, std::vector<Json>>;

  explicit SchemaBuilder(const Json& root, Splits given = {})
      : root_(root), places_(root), given_(std::move(given)) {}
  SchemaGraph build(const Schemas& schemas);
  /// See SchemaWork.
  double work() const;
  /// What a second builder needs to keep oneOf; empty: this graph keeps it.
  const Splits& splits() const { return splits_; }

 private:
  struct Entry {
    const Json* schema;
    int parent;   // index of the entry that asks for this one; -1: none
    bool choice;  // one of several: anyOf or oneOf
  };
  struct State {
    std::vector<Entry> flat, todo;
    std::vector<std::pair<const Json*, int>> unions;  // lists that are still to choose from, and their entry
  };

  int node(const Schemas& schemas);
  void expand(int id, const Schemas& schemas);
  void flatten(State state, std::vector<Schemas>& out);
  bool take(const Entry& entry, State& state, std::vector<Schemas>& out);
  void add_combined(const Json& schema, int parent, State& state);
  const Json* referred(const Json& schema);
  void merge(int id, const Schemas& flat);
  static std::optional<std::vector<Json>> listed_values(const Schemas& flat);
  bool merge_literals(int id, const Schemas& flat, unsigned kinds);
  void check_literals();
  bool spend(size_t count);
  void note_unenforced(const Schemas& flat);

  bool number_shape(const Schemas& flat, SchemaShape& shape);
  bool string_shape(const Schemas& flat, SchemaShape& shape);
  bool array_shape(const Schemas& flat, SchemaShape& shape);
  bool object_shape(const Schemas& flat, SchemaShape& shape);
  void add_patterns(const Schemas& flat, SchemaShape& shape);
  void add_names(const Schemas& flat, SchemaShape& shape);
  void settle_names();
  void settle_names(SchemaShape& shape);
  bool allows_name(int id, const std::set<Json>& listed, const std::string& name);
  bool shape_of(const Schemas& flat, JsonKind kind, SchemaShape& shape);
  using Named = std::unordered_map<std::string_view, const Json*>;
  /// The "properties" of each schema of `flat`, by name.
  static std::vector<Named> named_properties(const Schemas& flat);
  Schemas asked_of_property(const Schemas& flat, const std::vector<Named>& named, const std::string& name);
  void counts(const Schemas& flat, const char* least, const char* most, SchemaShape& shape);
  bool matches(const std::string& pattern, const std::string& text);

  void drop_impossible();
  void check_one_of();
  std::vector<Json> split(const std::vector<int>& nodes);
  std::optional<std::string> required_by_one(int one, int other);
  bool disjoint(int a, int b);
  bool told_apart(const SchemaNode& left, const SchemaNode& right);
  bool disjoint(const SchemaShape& a, const SchemaShape& b);
  bool told_apart(const SchemaShape& one, const SchemaShape& other);
  bool impossible(const SchemaShape& shape) const;

  void broken(const std::string& what);
  void unenforced(const std::string& what);

  struct Check {  // a literal that is an object or array, and the shape that it must follow
    int node;
    Json literal;
    std::shared_ptr<const SchemaShape> shape;
  };

  const Json& root_;
  const SchemaPlaces places_;
  SchemaGraph graph_;
  std::map<Schemas, int> ids_;
  std::vector<std::pair<int, Schemas>> waiting_;
  std::vector<Check> checks_;
  std::map<int, std::set<Json>> literals_;              // of each node
  std::map<const Json*, std::vector<int>> one_of_;      // nodes of the members
  size_t choices_ = 0, properties_ = 0, compared_ = 0;  // work so far
  uint64_t match_work_ = 0;
  std::map<std::pair<std::string, std::string>, bool> matches_;  // by pattern and text
  std::map<std::pair<int, int>, bool> disjoint_;                 // by nodes
  int depth_ = 0;                                                // of disjoint()
  const Splits given_;
  Splits splits_;
};

}  // namespace ft
