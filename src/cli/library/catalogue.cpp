#include "cli/library/catalogue.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/ascii.h"
#include "base/assert.h"
#include "base/json.h"

namespace ft::cli {
namespace {

/// The value of `key`, or the empty one for null.
template <typename T>
void read_known(const nlohmann::json& model, const char* key, T& value) {
  if (const nlohmann::json& known = model.at(key); !known.is_null()) value = known.get<T>();
}

std::vector<CatalogueEntry> read_catalogue() {
  const auto json = read_json<nlohmann::json>(catalogue_text());
  FT_ASSERT(json.is_object());
  std::vector<CatalogueEntry> entries;
  for (const nlohmann::json& model : json.at("models")) {
    CatalogueEntry entry;
    entry.family = model.at("family"), entry.name = model.at("name");
    entry.repository = model.at("repository"), entry.shape = model.at("shape");
    read_known(model, "bytes", entry.bytes);
    entry.token_bytes = model.at("token_bytes"), entry.memory_8k = model.at("memory_8k");
    read_known(model, "memory_64k", entry.memory_64k);
    entry.drafter = model.at("drafter"), entry.drafted = model.at("drafted");
    entry.drafter_repository = model.value("drafter_repository", "");
    read_known(model, "licence", entry.licence);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

const std::vector<CatalogueEntry>& catalogue() {
  static const std::vector<CatalogueEntry> entries = read_catalogue();
  return entries;
}

const CatalogueEntry* find_in_catalogue(std::string_view name) {
  const std::string wanted = lower(name);
  const auto found = std::ranges::find_if(
      catalogue(), [&](const CatalogueEntry& entry) { return lower(entry.name) == wanted; });
  return found == catalogue().end() ? nullptr : &*found;
}

std::string repository_of(const std::string& name) {
  const CatalogueEntry* entry = find_in_catalogue(name);
  return entry == nullptr ? name : entry->repository;
}

}  // namespace ft::cli
