// The data of a training: shards of texts that the model wrote itself, `kPromptsOfShard` prompts in each, in
// the order of their numbers. Work that was stopped continues: whole shards are kept, the others are written
// again with the same bytes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tune/captured_text.h"
#include "tune/shard.h"
#include "tune/streams.h"

namespace ft::tune {

inline constexpr int kPromptsOfShard = 32;

struct DatasetPlan {
  std::string folder;  // of the shards; must exist
  ShardHeader header;  // without `first`
  std::int64_t shards = 0;
  int least_tokens = 24;  // of a text that is kept
};

std::string shard_path(const DatasetPlan& plan, std::int64_t number);
ShardHeader shard_header(const DatasetPlan& plan, std::int64_t number);

struct DatasetCheck {
  std::vector<std::int64_t> missing;  // shards that are absent or were damaged; damaged ones are deleted
  ShardSize whole;                    // of all others together
};
/// Reads every shard, on several threads. kInvalid for a shard of other work.
Result<DatasetCheck> check_shards(const DatasetPlan& plan);

struct DatasetProgress {
  std::int64_t prompts = 0, all = 0;  // ended, of this call
  ShardSize written;                  // texts that were kept
};

/// Writes those shards. `stopped` ends it with kCancelled; what is whole stays.
Status write_shards(Decoder& decoder, TextReader& reader, const DatasetPlan& plan,
                    std::span<const std::int64_t> shards, const StreamOptions& options, const NextAsk& next,
                    const std::function<bool(const DatasetProgress&)>& stopped);

}  // namespace ft::tune
