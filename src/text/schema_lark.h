// SchemaLark: Lark rules of the values that a SchemaGraph allows, as JSON or in a chat format's own notation,
// and of lists of parameters. A rule belongs to a node, so recursion in the schema is recursion in the
// grammar. finish() writes the requested rules. Constraints that cannot be written are in unenforced().
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/schema_graph.h"

namespace ft {

/// How objects, arrays and strings are written.
struct ValueNotation {
  std::string_view comma, colon;  // between items; between a key and its value
  bool quoted_keys = true;        // JSON's; otherwise bare where possible
  bool sorted_keys = false;
  std::string_view string_quote =
      {};                     // the rule at both ends of a string that is raw text; empty: JSON's strings
  std::string_view tag = {};  // the text of that rule, which no string can hold
  std::string_view any_text;  // the rule of any string
  std::string_view anything = {};  // the rule of any value; empty: it is written where it is needed
};

extern const ValueNotation kJsonNotation;

/// A whole exclusive bound with the other bound less than 1 away, such as above 0 and up to 0.5: llguidance
/// also accepts the bound itself. Returns the bound moved a little further in; nothing otherwise.
struct MovedBound {
  std::string_view excluded, key;  // "exclusiveMinimum" becomes "minimum"
  double bound;
};
std::optional<MovedBound> moved_bound(const nlohmann::ordered_json& limits);

class SchemaLark {
 public:
  /// Rules go to `lark` under names that begin with `prefix`; both and the graph outlive this object.
  SchemaLark(const SchemaGraph& graph, const ValueNotation& notation, std::string prefix, std::string& lark)
      : graph_(graph), notation_(notation), prefix_(std::move(prefix)), lark_(lark) {}

  /// The rule of a node's values.
  std::string value(int id);
  /// The rule of one shape. `is_root`: the parameters of a function.
  std::string shape(const SchemaShape& shape, bool is_root = false);
  /// The rule of one literal.
  std::string literal(const nlohmann::ordered_json& value);
  /// The terminal of a string's text that contains none of `without`, followed by `end`.
  std::string text_terminal(const SchemaShape& shape, std::string_view without, std::string_view end);

  struct Item {
    std::string rule;
    bool required;
  };
  /// Writes an entry of a name outside of the properties. `name`: conditions that end in the name's terminal.
  using Entry = std::function<std::string(const std::string& name, int node)>;
  struct Names {
    std::string_view any;                                 // a regular expression of names
    std::function<std::string(std::string_view)> quoted;  // a part of it, as names are written
    Entry entry;
    bool others = false;  // names outside of the properties are allowed
  };
  /// The entries of an object in order, as many as it requires, with `comma` between.
  std::string entries(const std::vector<Item>& items, const SchemaShape& shape, const Names& names,
                      std::string_view comma);

  bool never(int id) const { return id == SchemaShape::kNever || graph_.node(id).impossible(); }
  std::string rule(const std::string& expression);
  std::string terminal(const std::string& expression);
  void unenforced(const std::string& what) { unenforced_.insert(what); }

  /// Writes the rules of all nodes that value() named.
  void finish();
  const std::set<std::string>& unenforced() const { return unenforced_; }
  /// A value is needed for which the notation has no text.
  bool unwritable() const { return unwritable_; }

 private:
  std::string object(const SchemaShape& shape, bool is_root);
  std::string array(const SchemaShape& shape);
  std::string number(const SchemaShape& shape);
  std::string string(const SchemaShape& shape);
  std::vector<std::string> text_conditions(const SchemaShape& shape);
  std::vector<std::string> name_conditions(int id, const Names& names);
  std::string key(const std::string& name);
  std::string anything();
  std::string written(const nlohmann::ordered_json& value, bool& possible);
  std::string others(const SchemaShape& shape, const Names& names, uint64_t least, uint64_t most, bool first,
                     std::string_view comma);
  std::string other_entry(const SchemaShape& shape, const Names& names, const std::string& also);
  std::string distinct(const SchemaShape& shape, const Names& names, uint64_t count, std::string_view comma);

  const SchemaGraph& graph_;
  const ValueNotation& notation_;
  const std::string prefix_;
  std::string& lark_;
  std::map<int, std::string> names_;
  std::map<std::string, std::string> rules_;  // by expression
  std::vector<int> waiting_;
  std::set<std::string> unenforced_;
  bool unwritable_ = false;
};

}  // namespace ft
