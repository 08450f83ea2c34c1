// A shard: a file of texts for the training of a drafter. For each token it has the rows of the target's
// layers that the drafter reads, and the last hidden row, from which the LM head makes the target's
// distribution. It is a safetensors file that is whole or absent, with a checksum over all its data:
//   documents [texts, 2]    tokens of each text, and how many of them are its prompt
//   tokens [tokens]         all texts, one after the other
//   rows [tokens, width]    float16, after the token of that place
//   hidden [tokens, hidden] float16, after the final norm
//   checksum [1]
// Its bytes follow from the texts alone: the number of streams that wrote them changes nothing. Errors:
// kCorrupt (torn file, wrong checksum, impossible sizes), kInvalid (a shard of other work), kExhausted (disk
// full), kIo.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft::tune {

/// What all shards of one work have in common, and the place of one among them.
struct ShardHeader {
  std::string model;        // identity of configuration and weights
  std::string prompts;      // identity of the prompts
  std::vector<int> layers;  // of the target, counted from 0; -1 is the embedding
  int width = 0;            // of all their rows side by side; 0: the drafter reads the last one alone
  int hidden = 0;           // width of the last hidden row
  std::int64_t first = 0;   // number of the first prompt
};

struct Document {
  std::vector<std::int32_t> tokens;
  int prompt_tokens = 0;
  std::vector<std::uint16_t> rows;    // [tokens, width] float16
  std::vector<std::uint16_t> hidden;  // [tokens, hidden] float16
};

/// A float as float16; a number beyond its range becomes the largest one.
std::uint16_t finite_half(float value);

/// Bytes of a shard with these numbers of texts and tokens, without its header.
std::int64_t shard_bytes(const ShardHeader& header, std::int64_t documents, std::int64_t tokens);

Status write_shard(const std::string& path, const ShardHeader& header, std::span<const Document> documents);

/// Reads the whole file and checks it against the header that is expected.
Result<std::vector<Document>> read_shard(const std::string& path, const ShardHeader& expected);

struct ShardSize {
  std::int64_t documents = 0, tokens = 0, answer_tokens = 0;
};
/// The same checks without a copy of the data.
Result<ShardSize> check_shard(const std::string& path, const ShardHeader& expected);

}  // namespace ft::tune
