// Keys that every family's config.json has in common: the sizes of the transformer, the tokens that end an
// answer, and whether the LM head is the embedding.
#pragma once

#include <cstdint>
#include <vector>

#include "format/config_files.h"
#include "format/key_reader.h"
#include "models/family.h"

namespace ft::blocks {

struct Sizes {
  int vocabulary = 32000, hidden = 4096, intermediate = 11008, layers = 32;
  int heads = 32, kv_heads = 0;  // default 0: as many as heads
  int head_dim = 0;              // default 0: hidden / heads
  double eps = 1e-6;
  std::int64_t positions = 2048;
};

/// Hugging Face's keys; `defaults` replace absent keys. Failures are in text.status(), which must be read
/// before sizes are multiplied: hidden_act must be silu, heads must divide, head_dim must be even.
Sizes read_sizes(format::KeyReader& text, const Sizes& defaults);

/// The end tokens of generation_config.json, then config.json's, without duplicates.
/// Also the suggested sampling parameters and `config.tied`.
struct Ends {
  std::vector<int> eos_ids;
  SamplingParams sampling;
};
/// `nested`: `text` is text_config, otherwise it is the whole object.
Result<Ends> read_ends(const format::ConfigFiles& files, format::KeyReader& top, format::KeyReader& text,
                       bool nested, int vocabulary, FamilyConfig& config);

/// Refuses a value that this version does not run: "KEY: expected EXPECTED, found FOUND; use ...".
void refuse(format::KeyReader& keys, const char* key, const std::string& expected, const std::string& found);

}  // namespace ft::blocks
