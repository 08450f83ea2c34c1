#include "speculation/scoring.h"

#include <algorithm>
#include <vector>

#include "speculation/assembly.h"

namespace ft {

Status score_text(const Assembly& assembly, std::span<const std::int32_t> tokens, int chunk,
                  const std::function<void(std::int64_t, std::span<const float>)>& row) {
  const DecoderOptions& options = assembly.options();
  const int most = std::max(options.slots * (options.max_depth + 1), options.logit_rows);
  chunk = chunk <= 0 ? most : std::min(chunk, most);
  FT_ASSIGN(Timeline timeline, Timeline::open(assembly.pool()));
  const auto vocabulary = static_cast<std::size_t>(assembly.target().vocabulary());
  std::vector<std::int32_t> logit_rows;
  for (std::size_t done = 0; done < tokens.size();) {
    const int rows =
        static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(chunk), tokens.size() - done));
    FT_ASSIGN(Txn txn, timeline.begin(rows, rows));
    const Segment segment = txn.segment();
    logit_rows.clear();
    for (int i = 0; i < rows; ++i) logit_rows.push_back(i);
    StepResult result;
    try {
      result = assembly.target().run(
          StepArgs{
              tokens.subspan(done, static_cast<std::size_t>(rows)), {}, {&segment, 1}, logit_rows, {}, {}},
          assembly.state());
    } catch (...) {
      txn.rollback();
      throw;
    }
    txn.commit(rows);
    for (int i = 0; i < rows; ++i) {
      row(static_cast<std::int64_t>(done) + i,
          result.logits.subspan(static_cast<std::size_t>(i) * vocabulary, vocabulary));
    }
    done += static_cast<std::size_t>(rows);
  }
  return {};
}

}  // namespace ft
