// Reads a text with the target, and keeps what a drafter learns from: the captured rows after every token and
// the likeliest successors in the answer. Rows have the bits that decoding would give them (the row rule).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "speculation/decoder.h"
#include "tune/shard.h"

namespace ft::tune {

class TextReader {
 public:
  /// `capture`: the name of a capture of the target's program. `decoder` needs one free slot and must outlive
  /// it. kUnsupported if the program has no such capture.
  static Result<TextReader> make(Decoder& decoder, const std::string& capture, int top);

  int width() const { return rows_->width(); }
  /// `prompt_tokens`: successors are kept from the last of them on.
  Result<Document> read(std::vector<std::int32_t> tokens, int prompt_tokens);

 private:
  TextReader(Decoder& decoder, int number, int top, std::unique_ptr<RowStore> rows)
      : decoder_(decoder), number_(number), top_(top), rows_(std::move(rows)) {}
  Result<StepResult> step(Timeline& timeline, std::span<const std::int32_t> tokens,
                          std::span<const std::int32_t> logit_rows);
  void add_successors(std::span<const float> logits, Document& document);

  Decoder& decoder_;
  int number_;  // of the capture
  int top_;
  std::unique_ptr<RowStore> rows_;
  std::vector<std::int32_t> order_;  // scratch
};

/// The layers whose rows a new EAGLE-3 drafter reads, of a target with `layers` layers: near the beginning,
/// the middle and the end.
std::vector<int> layers_to_capture(int layers);

}  // namespace ft::tune
