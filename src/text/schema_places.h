// SchemaPlaces: resolves the references of a schema (JSON Schema 2020-12, section 8.2): "#" and pointers of
// RFC 6901, names ("$anchor", or an "$id" that is "#name"), and parts with an address ("$id"), inside which
// "#" means that part. Addresses are compared as written, and after they are resolved against the address of
// the whole schema; nothing is fetched. Built once, in linear time.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "text/schema_graph.h"

namespace ft {

class SchemaPlaces {
 public:
  using Json = nlohmann::ordered_json;

  /// `root` outlives this object.
  explicit SchemaPlaces(const Json& root);

  /// The schema that `reference`, a member of `schema`, refers to; null if there is none.
  const Json* find(const Json& schema, std::string_view reference) const;

 private:
  void note(const Json& schema, const Json*& part);
  void add_address(const std::string& address, const Json& schema);
  const Json* inside(const Json& part, std::string_view fragment) const;

  const Json& root_;
  std::string address_;                                               // of the root; may be empty
  std::map<std::string, const Json*, std::less<>> parts_;             // by address
  std::map<std::pair<const Json*, std::string>, const Json*> names_;  // of a part
  std::map<const Json*, const Json*> part_of_;  // schemas with references that are not in the root's own part
};

/// The schema at the JSON pointer after "#" in `root`; null: none. Decodes ~0, ~1 and percent escapes.
const nlohmann::ordered_json* schema_at(const nlohmann::ordered_json& root, std::string_view pointer);

}  // namespace ft
