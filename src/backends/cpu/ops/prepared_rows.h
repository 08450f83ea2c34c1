// Rows of activations as the product kernels read them (kernels.h): quantised, group by group; in pairs of
// columns, for bf16 weights; or float32 as they are. Rows are in tiles, which share one read of the weights.
// Memory is the caller's: a part of an instruction's scratch. Cost: one pass over a row.
#pragma once

#include <span>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/pack/pack.h"

namespace ft::cpu {

inline constexpr int kPairs = 0;          // replaces a group size: pairs of columns for bf16 weights
inline constexpr int kMinMatrixRows = 9;  // from which Kernels::codes_matrix is faster

/// Up to kTileRows rows (kMatrixRows for codes_matrix) as a kernel reads them: `plain`, or the others.
struct Tile {
  int rows = 0;
  bool matrix = false;              // for codes_matrix
  const std::byte* data = nullptr;  // codes or pairs
  const float* scales = nullptr;    // [groups][rows]
  const float* sums = nullptr;
  const float* const* plain = nullptr;  // [rows] pointers
};

/// Place of a row in its tile.
struct TilePlace {
  std::int64_t tile = 0;  // its first row
  int row = 0, rows = 1;
};

struct GroupRange {
  int first, last;
};

struct PreparedRows {
  int group = kPairs, groups = 0;
  bool int16 = false;   // a row has two planes of codes
  bool matrix = false;  // codes are for codes_matrix
  int pair_bytes = 0;   // of two columns of a row
  std::int64_t columns = 0;
  std::int64_t row_bytes = 0;  // of codes or pairs
  std::byte* data = nullptr;   // [rows, row_bytes]
  float* scales = nullptr;     // [rows, groups]
  float* sums = nullptr;       // [rows, groups]

  /// Maximum rows of a tile.
  int tile_rows() const {
    return matrix ? kMatrixRows : group == kPairs ? kTileRows : kTilePlanes / planes();
  }
  /// The rows arranged for a product of `rows` rows.
  PreparedRows arranged(const Kernels& kernels, std::int64_t rows) const;
  /// Bytes of `rows` rows.
  std::int64_t bytes(std::int64_t rows) const;
  /// Sets the memory of `rows` rows; returns its end.
  std::byte* place(std::byte* begin, std::int64_t rows);
  /// The same rows in another copy, `bytes` further on.
  PreparedRows shifted(std::int64_t bytes) const;
  /// The place of one of `rows` rows.
  TilePlace place_of(std::int64_t row, std::int64_t rows) const;
  /// Writes a row. in: [columns]
  void write(const Kernels& kernels, const float* in, TilePlace at) const;
  /// Writes some groups of a row.
  void write(const Kernels& kernels, const float* in, TilePlace at, GroupRange some) const;
  /// Copies a row that is a separate tile.
  void copy(const PreparedRows& from, std::int64_t row, TilePlace at) const;
  Tile tile(std::int64_t first_row, int rows) const;

 private:
  int planes() const { return int16 ? 2 : 1; }
};

struct BuildContext;
/// The shape only, without memory.
PreparedRows prepared_rows(int group, std::int64_t columns, const BuildContext& context);
/// One for each form of rows (a group size, or kPairs) that the weights need; none for plain weights.
std::vector<PreparedRows> prepared_for(std::span<const Packed* const> weights, std::int64_t columns,
                                       const BuildContext& context);
/// Bytes of all of them together.
std::int64_t prepared_bytes(std::span<const PreparedRows> all, std::int64_t rows);
/// The index of the rows that `weight` takes; -1: plain ones.
int find_prepared(std::span<const PreparedRows> all, const Packed& weight);

struct BlockRange {
  int first, last;
};
/// Blocks of a weight that suit one tile of rows best.
int blocks_at_once(const Packed& weight);
/// Products of a tile with blocks of a weight. out: the tile's first row at the first block's first output;
/// rows are `stride` floats apart.
void multiply(const Kernels& kernels, const Packed& weight, bool int16, const Tile& tile, BlockRange blocks,
              float* out, std::int64_t stride);

}  // namespace ft::cpu
