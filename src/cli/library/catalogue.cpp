#include "cli/library/catalogue.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/assert.h"
#include "base/json.h"

namespace ft::cli {
namespace {

std::vector<CatalogueEntry> read_catalogue() {
  const auto json = read_json<nlohmann::json>(catalogue_text());
  FT_ASSERT(json.is_object());
  std::vector<CatalogueEntry> entries;
  for (const nlohmann::json& model : json.at("models")) {
    CatalogueEntry entry;
    entry.family = model.at("family"), entry.name = model.at("name");
    entry.repository = model.at("repository");
    entry.bytes = model.at("bytes"), entry.token_bytes = model.at("token_bytes");
    entry.memory_8k = model.at("memory_8k"), entry.memory_64k = model.at("memory_64k");
    entry.drafter = model.at("drafter"), entry.licence = model.at("licence");
    entry.drafted = model.at("drafted");
    entries.push_back(std::move(entry));
  }
  std::ranges::stable_sort(entries, {}, &CatalogueEntry::bytes);
  return entries;
}

}  // namespace

const std::vector<CatalogueEntry>& catalogue() {
  static const std::vector<CatalogueEntry> entries = read_catalogue();
  return entries;
}

}  // namespace ft::cli
