// SchemaBuilder: makes a SchemaGraph. A node is a conjunction of schemas. flatten() turns it into
// alternatives without "$ref", allOf, anyOf and oneOf; merge() turns each alternative into shapes. Nodes wait
// in a list, so that deep and recursive schemas need no deep stack.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/schema_graph.h"
#include "text/schema_places.h"

namespace ft {

class SchemaBuilder {
 public:
  using Json = nlohmann::ordered_json;
  using Schemas = std::vector<const Json*>;  // all of them hold

  explicit SchemaBuilder(const Json& root) : root_(root), places_(root) {}
  SchemaGraph build(const Schemas& schemas);

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
  bool merge_literals(int id, const Schemas& flat, unsigned kinds);
  void note_unenforced(const Schemas& flat);

  bool number_shape(const Schemas& flat, SchemaShape& shape);
  bool string_shape(const Schemas& flat, SchemaShape& shape);
  bool array_shape(const Schemas& flat, SchemaShape& shape);
  bool object_shape(const Schemas& flat, SchemaShape& shape);
  void add_patterns(const Schemas& flat, SchemaShape& shape);
  void add_names(const Schemas& flat, SchemaShape& shape);
  void settle_names();
  void settle_names(SchemaShape& shape);
  bool allows_name(int id, const std::string& name);
  bool shape_of(const Schemas& flat, JsonKind kind, SchemaShape& shape);
  Schemas asked_of_property(const Schemas& flat, const std::string& name);
  void counts(const Schemas& flat, const char* least, const char* most, SchemaShape& shape);
  bool matches(const std::string& pattern, const std::string& text);

  void drop_impossible();
  void check_one_of();
  bool disjoint(int a, int b, int depth) const;
  bool disjoint(const SchemaShape& a, const SchemaShape& b, int depth) const;
  bool impossible(const SchemaShape& shape) const;

  void broken(const std::string& what);
  void unenforced(const std::string& what);

  struct Check {  // a literal that is an object or array, and the shape that it must follow
    int node;
    Json literal;
    SchemaShape shape;
  };

  const Json& root_;
  const SchemaPlaces places_;
  SchemaGraph graph_;
  std::map<Schemas, int> ids_;
  std::vector<std::pair<int, Schemas>> waiting_;
  std::vector<Check> checks_;
  std::map<const Json*, std::vector<int>> one_of_;  // nodes of the members
};

}  // namespace ft
