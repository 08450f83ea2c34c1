// Repositories for users without a model: their size, the memory that they need, and their drafter. The
// data are in catalogue.json, which is built into the program and explains its fields. `pull --dry-run`
// prints the exact size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ft::cli {

struct CatalogueEntry {
  std::string family, name, repository;
  std::string shape;                           // of synth: with the same network
  std::int64_t bytes = 0;                      // of the weights; 0: not looked up
  std::int64_t token_bytes = 0;                // read for one token
  std::int64_t memory_8k = 0, memory_64k = 0;  // weights and one conversation; 0: it has no such context
  std::string drafter;                         // "includes MTP head"
  std::string drafter_repository;              // for --drafter; empty: none is known
  std::string licence;                         // empty: not looked up
  double drafted = 1;                          // expected ratio to plain decoding
};

/// In the order of the file: the first is the usual choice. Read once.
const std::vector<CatalogueEntry>& catalogue();
/// The entry of this name, in any case of its letters; null: none.
const CatalogueEntry* find_in_catalogue(std::string_view name);
/// The repository of the entry of this name; any other name as it is.
std::string repository_of(const std::string& name);

/// The text of catalogue.json (catalogue_data.cpp.in).
const char* catalogue_text();

}  // namespace ft::cli
