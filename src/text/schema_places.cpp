#include "text/schema_places.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/ascii.h"

namespace ft {

namespace {

using Json = nlohmann::ordered_json;

/// A part of a pointer in a URI: percent escapes first, then ~1 and ~0.
std::string decoded(std::string_view part) {
  const std::string plain = percent_decoded(part);
  std::string name;
  for (size_t i = 0; i < plain.size(); ++i) {
    const bool escape =
        plain[i] == '~' && i + 1 < plain.size() && (plain[i + 1] == '0' || plain[i + 1] == '1');
    name += escape ? (plain[i + 1] == '0' ? '~' : '/') : plain[i];
    i += escape ? 1 : 0;
  }
  return name;
}

/// The text of a member; empty if there is none.
std::string text_of(const Json& schema, const char* key) {
  const auto found = schema.find(key);
  return found != schema.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// `address` as seen from `base`: absolute, below the same host, or relative.
std::string resolved(std::string_view base, std::string_view address) {
  const size_t scheme = address.find("://");
  const size_t host = base.find("://");
  if (scheme != std::string_view::npos || address.starts_with("urn:") || base.empty())
    return std::string(address);
  const bool at_host = address.starts_with('/') && host != std::string_view::npos;
  const size_t end = at_host ? std::min(base.find('/', host + 3), base.size()) : base.rfind('/') + 1;
  return std::string(base.substr(0, end)).append(address);
}

/// Members that hold values, not schemas.
bool holds_values(const std::string& key) {
  return key == "enum" || key == "const" || key == "default" || key == "examples" || key == "example";
}

}  // namespace

const Json* schema_at(const Json& root, std::string_view pointer) {
  const Json* at = &root;
  if (pointer.empty()) return at;
  if (pointer[0] != '/') return nullptr;
  for (size_t from = 1; from <= pointer.size();) {
    const size_t to = std::min(pointer.find('/', from), pointer.size());
    const std::string name = decoded(pointer.substr(from, to - from));
    from = to + 1;
    if (at->is_object()) {
      const auto child = at->find(name);
      if (child == at->end()) return nullptr;
      at = &*child;
    } else {
      const bool number = at->is_array() && !name.empty() && name.size() < 10 &&
                          name.find_first_not_of("0123456789") == std::string::npos;
      if (!number || std::stoul(name) >= at->size()) return nullptr;
      at = &(*at)[std::stoul(name)];
    }
  }
  return at;
}

SchemaPlaces::SchemaPlaces(const Json& root) : root_(root) {
  if (root.is_object()) address_ = text_of(root, "$id");
  std::vector<std::pair<const Json*, const Json*>> waiting = {{&root, &root}};  // and its part
  while (!waiting.empty()) {
    auto [at, part] = waiting.back();
    waiting.pop_back();
    if (at->is_object()) note(*at, part);
    for (const auto& [key, child] : at->items()) {
      const bool skip = !child.is_structured() || (at->is_object() && holds_values(key) && child.is_array());
      if (!skip) waiting.emplace_back(&child, part);
    }
  }
}

/// `part` becomes the schema if it is one.
void SchemaPlaces::note(const Json& schema, const Json*& part) {
  const std::string id = text_of(schema, "$id");
  if (!id.empty() && !id.starts_with('#')) {
    part = &schema;
    add_address(id, schema);
    add_address(resolved(address_, id), schema);
  }
  if (id.starts_with('#') && id.size() > 1) names_.try_emplace({part, id.substr(1)}, &schema);
  for (const char* key : {"$anchor", "$dynamicAnchor"}) {
    if (const std::string name = text_of(schema, key); !name.empty())
      names_.try_emplace({part, name}, &schema);
  }
  if (part != &root_ && schema.contains("$ref")) part_of_[&schema] = part;
}

void SchemaPlaces::add_address(const std::string& address, const Json& schema) {
  parts_.try_emplace(address.ends_with('#') ? address.substr(0, address.size() - 1) : address, &schema);
}

const Json* SchemaPlaces::inside(const Json& part, std::string_view fragment) const {
  if (fragment.empty() || fragment.starts_with('/')) return schema_at(part, fragment);
  const auto named = names_.find({&part, percent_decoded(fragment)});
  return named == names_.end() ? nullptr : named->second;
}

const Json* SchemaPlaces::find(const Json& schema, std::string_view reference) const {
  const size_t mark = std::min(reference.find('#'), reference.size());
  const std::string_view address = reference.substr(0, mark);
  const std::string_view fragment = reference.substr(std::min(mark + 1, reference.size()));
  if (address.empty()) {
    const auto known = part_of_.find(&schema);
    const Json* found = inside(known == part_of_.end() ? root_ : *known->second, fragment);
    return found != nullptr ? found : inside(root_, fragment);  // some writers mean the whole all the same
  }
  for (const std::string& name : {std::string(address), resolved(address_, address)}) {
    if (const auto part = parts_.find(name); part != parts_.end()) return inside(*part->second, fragment);
  }
  return nullptr;
}

}  // namespace ft
