// A GGUF model as its files on disk: one file, or its shards NAME-00001-of-0000N.gguf. Any shard leads to all
// of them; the metadata are from the first. Owner: the result keeps the files mapped. Cost: the headers are
// read. Errors: as MappedFile and parse_gguf, kNotFound for an absent shard, kCorrupt for shards that do not
// belong together.
#pragma once

#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/result.h"
#include "format/gguf/container.h"

namespace ft::format {

struct GgufFiles {
  std::vector<MappedFile> files;
  std::vector<std::uint64_t> header_bytes;  // of each file
  GgufFile contents;                        // tensors of all files; GgufTensor::part is the file's index
};

Result<GgufFiles> open_gguf(const std::string& path);

/// True for a regular file that begins as a GGUF file does, whatever its name.
bool is_gguf_file(const std::string& path);

/// The parts of "NAME-00002-of-00003.gguf"; count 0 for a name of another form.
struct ShardName {
  std::string before;  // with its folder: "DIR/NAME"
  int number = 0, count = 0;

  std::string path(int shard) const;
};
ShardName read_shard_name(const std::string& path);

/// The file name without ".gguf" and without the number of a shard.
std::string gguf_model_name(const std::string& path);

}  // namespace ft::format
