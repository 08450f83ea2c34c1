#include "tune/dataset.h"

#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <utility>

namespace ft::tune {
namespace {

/// Texts in the order of their prompts: a shard is written once all of its prompts have ended.
class ShardsInOrder {
 public:
  ShardsInOrder(const DatasetPlan& plan, TextReader& reader) : plan_(plan), reader_(reader) {}

  Status take(std::int64_t index, std::optional<Answered> answered) {
    const std::int64_t number = index / kPromptsOfShard;
    Waiting& waiting = waiting_[number];
    ++waiting.ended;
    if (answered) {
      answered->tokens.resize(
          before_repetition(answered->tokens, static_cast<std::size_t>(answered->prompt_tokens)));
      if (static_cast<int>(answered->tokens.size()) >= plan_.least_tokens) {
        FT_ASSIGN(waiting.documents[index],
                  reader_.read(std::move(answered->tokens), answered->prompt_tokens));
        tokens_ += static_cast<std::int64_t>(waiting.documents[index].tokens.size());
      }
    }
    if (waiting.ended < kPromptsOfShard) return {};
    std::vector<Document> documents;
    for (auto& [at, document] : waiting.documents) documents.push_back(std::move(document));
    waiting_.erase(number);
    return write_shard(shard_path(plan_, number), shard_header(plan_, number), documents);
  }
  std::int64_t tokens() const { return tokens_; }

 private:
  struct Waiting {
    int ended = 0;
    std::map<std::int64_t, Document> documents;  // by prompt
  };
  const DatasetPlan& plan_;
  TextReader& reader_;
  std::map<std::int64_t, Waiting> waiting_;  // by shard
  std::int64_t tokens_ = 0;
};

}  // namespace

std::string shard_path(const DatasetPlan& plan, std::int64_t number) {
  return fmt::format("{}/shard-{:05}.safetensors", plan.folder, number);
}

ShardHeader shard_header(const DatasetPlan& plan, std::int64_t number) {
  ShardHeader header = plan.header;
  header.first = number * kPromptsOfShard;
  return header;
}

Result<std::vector<std::int64_t>> missing_shards(const DatasetPlan& plan) {
  std::vector<std::int64_t> missing;
  for (std::int64_t number = 0; number < plan.shards; ++number) {
    const std::string path = shard_path(plan, number);
    const Result<ShardSize> size = check_shard(path, shard_header(plan, number));
    if (size.ok()) continue;
    if (size.error().code != Code::kNotFound && size.error().code != Code::kCorrupt) return size.error();
    std::error_code ignored;  // writing reports it
    std::filesystem::remove(path, ignored);
    missing.push_back(number);
  }
  return missing;
}

Status write_shards(Decoder& decoder, TextReader& reader, const DatasetPlan& plan,
                    std::span<const std::int64_t> shards, const StreamOptions& options, const NextAsk& next,
                    const std::function<bool(const DatasetProgress&)>& stopped) {
  std::vector<std::int64_t> indices;
  for (const std::int64_t number : shards) {
    for (int i = 0; i < kPromptsOfShard; ++i) indices.push_back(number * kPromptsOfShard + i);
  }
  ShardsInOrder ordered(plan, reader);
  DatasetProgress progress{0, static_cast<std::int64_t>(indices.size()), 0};
  const TakeAnswer take = [&](std::int64_t index, std::optional<Answered> answered) -> Status {
    FT_TRY(ordered.take(index, std::move(answered)));
    ++progress.prompts;
    progress.tokens = ordered.tokens();
    return {};
  };
  return write_answers(decoder, options, indices, next, take, [&] { return stopped(progress); });
}

}  // namespace ft::tune
