// Merges of a SentencePiece vocabulary. A GGUF file of such a tokenizer (Llama 2, Mistral 7B) has a score
// for each piece and no merges: the neighbours whose union has the highest score are joined first. A
// tokenizer.json lists them in that order. Source: convert_slow_tokenizer.py of transformers. Cost:
// pieces times their length.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ft::format {

/// "left right" for each way to make a piece of two others, the best first. Kinds are ggml's; the three lists
/// have one size.
std::vector<std::string> merges_of_pieces(const std::vector<std::string>& pieces,
                                          const std::vector<double>& scores,
                                          const std::vector<std::int64_t>& kinds);

}  // namespace ft::format
