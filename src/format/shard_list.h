// Finds the files that make up the checkpoint of a model directory: reads indexes, globs and sidecar keys,
// not tensors. Checkpoint::open is the only caller. Cost: a directory listing and up to three small JSON
// files. Errors and the order of the rules: see checkpoint.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace ft::format {

struct ShardList {
  std::vector<std::string> shards;                // relative paths, sorted, without the sidecar
  std::string sidecar;                            // relative path, "" if there is none
  std::string vision;                             // vision.safetensors, if it exists and is not a shard
  std::map<std::string, std::string> weight_map;  // tensor -> shard, from the index; empty without an index
  std::string index_path;                         // for messages; "" without an index
};

/// `head_file`: the sidecar to use instead of the directory's; empty: search for one.
Result<ShardList> list_shards(const std::string& directory, const std::string& head_file = "");

}  // namespace ft::format
