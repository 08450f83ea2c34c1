#include "cli/library/catalogue.h"

#include <array>

namespace ft::cli {

std::span<const CatalogueEntry> catalogue() {
  // Their cards say that they keep the MTP head.
  static constexpr std::array<CatalogueEntry, 3> kEntries = {{
      {"mlx-community/Qwen3.5-4B-OptiQ-4bit", "4B, its head drafts", 3'300'000'000},
      {"mlx-community/Qwen3.5-9B-OptiQ-4bit", "9B, its head drafts", 6'600'000'000},
      {"kradih/Qwen3.6-27B-MTP-4bit-MLX", "27B, its head drafts", 15'600'000'000},
  }};
  return kEntries;
}

}  // namespace ft::cli
