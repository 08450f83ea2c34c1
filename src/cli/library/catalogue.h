// A few repositories for a user who has no model yet, with a description and the memory they need. Sizes are
// approximate; `pull --dry-run` prints the exact one.
#pragma once

#include <cstdint>
#include <span>

namespace ft::cli {

struct CatalogueEntry {
  const char* repository;
  const char* note;
  std::int64_t bytes;  // about
};

/// By size, the smallest first.
std::span<const CatalogueEntry> catalogue();

}  // namespace ft::cli
