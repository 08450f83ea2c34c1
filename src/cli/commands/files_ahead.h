// FilesAhead: while it lives, a thread lets the system read the files of a model into memory, in order. The
// disk then works while the tokenizer and the programs are made. Owner: the load. Cost: a thread that mostly
// waits for the disk. Errors: none; a file that cannot be opened is left to its reader.
#pragma once

#include <cstdint>
#include <string>
#include <thread>

namespace ft::cli {

class FilesAhead {
 public:
  /// `place`: a folder or a GGUF file; only its first `most_bytes` bytes.
  FilesAhead(const std::string& place, std::int64_t most_bytes);

 private:
  std::jthread thread_;
};

}  // namespace ft::cli
