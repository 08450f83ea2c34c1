// SchemaPlaces: where the references of a schema lead (JSON Schema 2020-12, section 8.2): "#" and pointers of
// RFC 6901, names ("$anchor", or an "$id" that is "#name"), and parts that have an address of their own
// ("$id"), inside of which "#" means that part. Addresses are compared as they are written and after they are
// resolved against the whole schema's; nothing is fetched. Built once, in linear time.
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

  /// What `reference`, a member of `schema`, leads to; null if that is nowhere.
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

/// The JSON pointer after "#" in `root`; null if it leads nowhere. ~0, ~1 and percent escapes are decoded.
const nlohmann::ordered_json* schema_at(const nlohmann::ordered_json& root, std::string_view pointer);

}  // namespace ft
