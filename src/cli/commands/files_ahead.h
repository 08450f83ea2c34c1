// FilesAhead: while it lives, a thread reads the files of a model, in order, so that they are in the page
// cache when a backend packs them: the disk works while the tokenizer and the programs are made. It reads as
// `cat` does. Advice to read mapped pages (madvise) takes more time: Linux then caches single pages instead
// of large folios. Owner: the load. Cost: one copy of what it reads. Errors: none; a file that cannot be read
// is left to its reader.
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
