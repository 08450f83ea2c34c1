// A few repositories to begin with, for a person who has no model yet: what they are, and how much memory
// they take. Sizes are about right; `pull --dry-run` says the exact one.
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
