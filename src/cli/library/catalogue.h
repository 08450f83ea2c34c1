// Repositories for users without a model: their size, the memory that they need, and their drafter. The
// data are in catalogue.json, which is built into the program. `pull --dry-run` prints the exact size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ft::cli {

struct CatalogueEntry {
  std::string family, name, repository;
  std::int64_t bytes = 0, token_bytes = 0;     // of all files; read for one token
  std::int64_t memory_8k = 0, memory_64k = 0;  // weights and one conversation
  std::string drafter, licence;                // "includes MTP head"; empty: see its card
  double drafted = 1;                          // expected ratio to plain decoding
};

/// By size, the smallest first. Read once.
const std::vector<CatalogueEntry>& catalogue();

/// The text of catalogue.json (catalogue_data.cpp.in).
const char* catalogue_text();

}  // namespace ft::cli
