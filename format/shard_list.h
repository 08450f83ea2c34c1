// Which files of a model directory make up its checkpoint: the reading of indexes, globs and sidecar keys,
// apart from the reading of tensors. Checkpoint::open is the only caller. Threads: any. Cost: a directory
// listing and up to three small JSON files. Errors: as in checkpoint.h, where the order of the rules is
// written down.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft::format {

struct ShardList {
  std::vector<std::string> shards;  // relative paths, sorted, without the sidecar
  std::string sidecar;              // relative path, "" when there is none
  std::map<std::string, std::string>
      weight_map;          // tensor -> shard, as the index says; empty without an index
  std::string index_path;  // for messages; "" without an index
};

Result<ShardList> list_shards(const std::string& directory);

}  // namespace ft::format
