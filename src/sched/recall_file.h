// RecallFile: the texts that the drafter `recall` drafts from, kept across restarts (`--lookup-memory DIR`,
// one file for each model in that folder). `--lookup-memory-mb` bounds the drafter's memory and so the file.
// It has the users' texts as tokens, so only its owner can read it. A file that is damaged or of another
// model is not used; the log says so in one line, and the next write replaces it. Writing never fails a
// request. Owner: sched/engine.h; thread: the engine's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "speculation/decoder.h"

namespace ft {

class RecallDrafter;

struct RecallFileOptions {
  std::string path;  // empty: no file
  std::string key;   // the model; a file with another key is not used
};

class RecallFile {
 public:
  /// Between two writes of a running engine.
  static constexpr double kRestMs = 60'000;

  explicit RecallFile(RecallFileOptions options) : options_(std::move(options)) {}
  void load(Decoder& decoder);
  /// Writes texts learnt since the last write, if there are any and kRestMs have passed since then.
  void store(Decoder& decoder, double now_ms, bool at_once = false);

 private:
  RecallFileOptions options_;
  std::int64_t written_ = 0;  // texts learnt up to the last write
  double last_ms_ = 0;
};

/// The file's bytes. For tests and RecallFile.
std::string recall_file_bytes(const RecallDrafter& drafter, const std::string& key);
/// kCorrupt if they are damaged, kNotFound if they belong to another model; the drafter then keeps its texts.
Status read_recall_file(std::string_view bytes, const std::string& key, int vocabulary,
                        RecallDrafter& drafter);

}  // namespace ft
