#include "tune/captured_text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace ft::tune {
namespace {

constexpr int kMaxRows = 128;  // of a step

/// Rows of a step, all of which may have logits.
int chunk_of(const DecoderOptions& options) {
  return std::min(kMaxRows, std::max(options.slots * (options.max_depth + 1), options.logit_rows));
}

double log_of_sum(std::span<const float> logits, float largest) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  return static_cast<double>(largest) + std::log(sum);
}

}  // namespace

Result<TextReader> TextReader::make(Decoder& decoder, const std::string& capture, int top) {
  const Capture* found = find_capture(decoder.model().target, capture);
  if (found == nullptr) {
    return Error{Code::kUnsupported,
                 fmt::format("the program of {} captures no rows '{}'; this family cannot be tuned",
                             decoder.model().name, capture)};
  }
  FT_ASSIGN(std::unique_ptr<RowStore> rows,
            decoder.backend().make_rows(found->in.width, chunk_of(decoder.options())));
  return TextReader(decoder, found->number, std::min(top, decoder.target().vocabulary()), std::move(rows));
}

Result<StepResult> TextReader::step(Timeline& timeline, std::span<const std::int32_t> tokens,
                                    std::span<const std::int32_t> logit_rows) {
  const auto count = static_cast<int>(tokens.size());
  FT_ASSIGN(Txn txn, timeline.begin(count, count));
  const Segment segment = txn.segment();
  std::vector<std::int32_t> places(tokens.size());
  std::iota(places.begin(), places.end(), 0);
  StepArgs args;
  args.tokens = tokens, args.segments = {&segment, 1}, args.logit_rows = logit_rows;
  args.capture.stores[static_cast<std::size_t>(number_)] = rows_.get();
  args.capture.places = places;
  StepResult result;
  try {
    result = decoder_.target().run(args, decoder_.assembly().state());
  } catch (...) {
    txn.rollback();
    throw;
  }
  txn.commit(count);
  return result;
}

void TextReader::add_successors(std::span<const float> logits, Document& document) {
  const float largest = *std::ranges::max_element(logits);
  const double sum = log_of_sum(logits, largest);
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  std::partial_sort(order_.begin(), order_.begin() + top_, order_.end(), [&](std::int32_t a, std::int32_t b) {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  });
  for (int i = 0; i < top_; ++i) {
    const std::int32_t id = order_[static_cast<std::size_t>(i)];
    document.top_ids.push_back(id);
    document.top_logprobs.push_back(finite_half(static_cast<float>(static_cast<double>(logit(id)) - sum)));
  }
}

Result<Document> TextReader::read(std::vector<std::int32_t> tokens, int prompt_tokens) {
  Document document;
  document.prompt_tokens = prompt_tokens;
  const auto chunk = static_cast<std::size_t>(rows_->capacity());
  const auto width = static_cast<std::size_t>(rows_->width());
  const auto vocabulary = static_cast<std::size_t>(decoder_.target().vocabulary());
  std::vector<float> captured;
  std::vector<std::int32_t> logit_rows;
  FT_ASSIGN(Timeline timeline, Timeline::open(decoder_.assembly().pool()));
  for (std::size_t done = 0; done < tokens.size();) {
    const std::size_t count = std::min(chunk, tokens.size() - done);
    logit_rows.clear();
    for (std::size_t i = 0; i < count; ++i) {
      if (static_cast<int>(done + i) + 1 >= prompt_tokens) logit_rows.push_back(static_cast<std::int32_t>(i));
    }
    FT_ASSIGN(const StepResult result, step(timeline, std::span(tokens).subspan(done, count), logit_rows));
    for (std::size_t i = 0, logits = 0; i < count; ++i) {
      const bool has = logits < logit_rows.size() && logit_rows[logits] == static_cast<std::int32_t>(i);
      if (has) {
        add_successors(result.logits.subspan(logits++ * vocabulary, vocabulary), document);
      } else {
        document.top_ids.insert(document.top_ids.end(), static_cast<std::size_t>(top_), -1);
        document.top_logprobs.insert(document.top_logprobs.end(), static_cast<std::size_t>(top_), 0);
      }
    }
    captured.resize(count * width);
    rows_->read(0, captured);
    std::ranges::transform(captured, std::back_inserter(document.rows), finite_half);
    done += count;
  }
  document.tokens = std::move(tokens);
  return document;
}

std::vector<int> layers_to_capture(int layers) {
  constexpr int kUsual = 7, kFew = 4;
  if (layers >= kUsual) return {1, layers / 2 - 1, layers - 4};
  if (layers >= kFew) return {1, 2, 3};
  return {-1, layers - 1};
}

}  // namespace ft::tune
