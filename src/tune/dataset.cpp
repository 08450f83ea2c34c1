#include "tune/dataset.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fmt/format.h>
#include <future>
#include <map>
#include <optional>
#include <utility>

#include "base/thread_pool.h"

namespace ft::tune {
namespace {

/// Texts in the order of their prompts: a shard is read and written once all of its prompts have ended. The
/// file is written while the model continues.
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
        const auto tokens = static_cast<std::int64_t>(answered->tokens.size());
        kept_.documents += 1, kept_.tokens += tokens;
        kept_.answer_tokens += tokens - std::min<std::int64_t>(tokens, answered->prompt_tokens);
        waiting.texts.emplace(index, std::move(*answered));
      }
    }
    if (waiting.ended < kPromptsOfShard) return {};
    std::vector<Answered> texts;
    for (auto& [at, text] : waiting.texts) texts.push_back(std::move(text));
    waiting_.erase(number);
    FT_ASSIGN(std::vector<Document> documents, reader_.read(std::move(texts)));
    FT_TRY(finish());
    writing_ = std::async(std::launch::async, [this, number, documents = std::move(documents)] {
      return write_shard(shard_path(plan_, number), shard_header(plan_, number), documents);
    });
    return {};
  }
  /// The last file is whole.
  Status finish() { return writing_.valid() ? writing_.get() : Status(); }
  const ShardSize& kept() const { return kept_; }

 private:
  struct Waiting {
    int ended = 0;
    std::map<std::int64_t, Answered> texts;  // by prompt
  };
  const DatasetPlan& plan_;
  TextReader& reader_;
  std::map<std::int64_t, Waiting> waiting_;  // by shard
  ShardSize kept_;
  std::future<Status> writing_;  // its destructor waits
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

Result<DatasetCheck> check_shards(const DatasetPlan& plan) {
  const auto shards = static_cast<std::size_t>(plan.shards);
  std::vector<std::optional<Result<ShardSize>>> found(shards);
  std::atomic<std::size_t> next{0};
  auto check = [&](int /*worker*/, int /*workers*/) {
    for (std::size_t i = next++; i < shards; i = next++) {
      const auto number = static_cast<std::int64_t>(i);
      found[i].emplace(check_shard(shard_path(plan, number), shard_header(plan, number)));
    }
  };
  ThreadPool pool(static_cast<int>(std::clamp<std::int64_t>(plan.shards, 1, usual_workers())), 0);
  pool.run(check);
  DatasetCheck all;
  for (std::size_t i = 0; i < shards; ++i) {
    const Result<ShardSize>& size = *found[i];
    if (size.ok()) {
      all.whole.documents += size->documents, all.whole.tokens += size->tokens;
      all.whole.answer_tokens += size->answer_tokens;
      continue;
    }
    if (size.error().code != Code::kNotFound && size.error().code != Code::kCorrupt) return size.error();
    std::error_code ignored;  // writing reports it
    std::filesystem::remove(shard_path(plan, static_cast<std::int64_t>(i)), ignored);
    all.missing.push_back(static_cast<std::int64_t>(i));
  }
  return all;
}

Status write_shards(Decoder& decoder, TextReader& reader, const DatasetPlan& plan,
                    std::span<const std::int64_t> shards, const StreamOptions& options, const NextAsk& next,
                    const std::function<bool(const DatasetProgress&)>& stopped) {
  std::vector<std::int64_t> indices;
  for (const std::int64_t number : shards) {
    for (int i = 0; i < kPromptsOfShard; ++i) indices.push_back(number * kPromptsOfShard + i);
  }
  ShardsInOrder ordered(plan, reader);
  DatasetProgress progress{0, static_cast<std::int64_t>(indices.size()), {}};
  const TakeAnswer take = [&](std::int64_t index, std::optional<Answered> answered) -> Status {
    FT_TRY(ordered.take(index, std::move(answered)));
    ++progress.prompts;
    progress.written = ordered.kept();
    return {};
  };
  const Status status =
      write_answers(decoder, options, indices, next, take, [&] { return stopped(progress); });
  const Status last = ordered.finish();
  return status.ok() ? last : status;
}

}  // namespace ft::tune
