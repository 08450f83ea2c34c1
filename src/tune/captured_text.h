// Reads texts with the target, and keeps what a drafter learns from: the rows of some layers and the last
// hidden row after every token. Rows have the bits that decoding would give them (the row rule), so the
// texts that are read together do not matter.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "speculation/decoder.h"
#include "tune/shard.h"
#include "tune/streams.h"

namespace ft::tune {

class TextReader {
 public:
  /// `capture`: the name of a capture of the target's program; empty: only the last hidden rows are kept.
  /// `decoder` needs `texts` free slots, for as many texts in one step, and must outlive it. `rows`: of a
  /// step, 0: as many as of a prompt. kUnsupported if the program has no such capture, or none of the rows
  /// that its LM head reads.
  static Result<TextReader> make(Decoder& decoder, const std::string& capture, int texts, int rows = 0);

  int width() const { return layers_.rows ? layers_.rows->width() : 0; }
  int hidden() const { return last_.rows->width(); }
  Result<std::vector<Document>> read(std::vector<Answered> texts);

 private:
  struct Captured {
    std::size_t number = 0;  // of the capture
    std::unique_ptr<RowStore> rows;
  };
  struct Reading;

  TextReader(Decoder& decoder, int texts, Captured layers, Captured last)
      : decoder_(decoder),
        texts_(texts),
        layers_(std::move(layers)),
        last_(std::move(last)),
        pool_(std::make_unique<ThreadPool>()) {}
  Status read_together(std::span<Reading> group);
  Status step(std::span<Reading> group);
  void keep(const Captured& captured, std::span<Reading> group, std::vector<std::uint16_t> Document::* part);

  Decoder& decoder_;
  int texts_;
  Captured layers_, last_;
  std::unique_ptr<ThreadPool> pool_;  // sleeps while the decoder's workers run
  std::vector<float> floats_;         // scratch
};

/// The layers whose rows a new EAGLE-3 drafter reads, of a target with `layers` layers: near the beginning,
/// the middle and the end.
std::vector<int> layers_to_capture(int layers);
/// `count` of them for a block drafter, evenly from the second to the third last.
std::vector<int> layers_of_block(int layers, int count);

}  // namespace ft::tune
