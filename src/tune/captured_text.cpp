#include "tune/captured_text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <utility>

#include "tune/target_file.h"

namespace ft::tune {
namespace {

/// Floats to float16, on several threads if there are many.
void narrow(ThreadPool& pool, std::span<const float> from, std::uint16_t* to) {
  constexpr std::size_t kEach = std::size_t{1} << 18;
  constexpr std::size_t kMaxThreads = 8;
  const auto most = static_cast<int>(std::clamp<std::size_t>(from.size() / kEach, 1, kMaxThreads));
  auto part = [&](int worker, int workers) {
    const auto number = static_cast<std::size_t>(worker), all = static_cast<std::size_t>(workers);
    const std::size_t first = from.size() * number / all, end = from.size() * (number + 1) / all;
    for (std::size_t i = first; i < end; ++i) to[i] = finite_half(from[i]);
  };
  pool.run(part, std::min(most, pool.workers()));
}

/// The capture of the rows that the LM head reads.
const Capture* last_hidden(const Program& target) {
  const Capture* found = find_capture(target, "hidden");
  const Logits* logits = target_logits(target);
  return found != nullptr && logits != nullptr && found->in.id == logits->in.id ? found : nullptr;
}

}  // namespace

/// A text that is being read.
struct TextReader::Reading {
  Document* document = nullptr;
  Timeline timeline;
  std::size_t done = 0, now = 0;  // tokens of earlier steps, and of the present one
  std::size_t left() const { return document->tokens.size() - done; }
};

Result<TextReader> TextReader::make(Decoder& decoder, const std::string& capture, int texts, int rows) {
  const Program& target = decoder.model().target;
  if (rows == 0) rows = decoder.options().prefill_chunk;
  const auto store = [&](const Capture& found, Captured& captured) -> Status {
    captured.number = static_cast<std::size_t>(found.number);
    FT_ASSIGN(captured.rows, decoder.backend().make_rows(found.in.width, rows));
    return {};
  };
  Captured layers, last;
  const Capture* found = last_hidden(target);
  const Capture* wanted = capture.empty() ? found : find_capture(target, capture);
  if (found == nullptr || wanted == nullptr) {
    return Error{Code::kUnsupported,
                 fmt::format("the program of {} captures no rows '{}'; this family cannot be tuned",
                             decoder.model().name, found == nullptr ? "hidden" : capture)};
  }
  FT_TRY(store(*found, last));
  if (wanted != found) FT_TRY(store(*wanted, layers));
  return TextReader(decoder, texts, std::move(layers), std::move(last));
}

Result<std::vector<Document>> TextReader::read(std::vector<Answered> texts) {
  std::vector<Document> documents(texts.size());
  std::vector<Reading> group;
  std::size_t tokens = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    documents[i].tokens = std::move(texts[i].tokens), documents[i].prompt_tokens = texts[i].prompt_tokens;
    const std::size_t size = documents[i].tokens.size();
    const bool fits = tokens + size <= static_cast<std::size_t>(last_.rows->capacity()) &&
                      group.size() < static_cast<std::size_t>(texts_);
    if (!group.empty() && !fits) {
      FT_TRY(read_together(group));
      group.clear(), tokens = 0;
    }
    FT_ASSIGN(Timeline timeline, Timeline::open(decoder_.assembly().pool()));
    group.push_back({&documents[i], std::move(timeline)});
    tokens += size;
  }
  FT_TRY(read_together(group));
  return documents;
}

/// All of a group fit into one step, or it is one text.
Status TextReader::read_together(std::span<Reading> group) {
  while (std::ranges::any_of(group, [](const Reading& reading) { return reading.left() > 0; })) {
    auto room = static_cast<std::size_t>(last_.rows->capacity());
    for (Reading& reading : group) {
      reading.now = std::min(room, reading.left());
      room -= reading.now;
    }
    FT_TRY(step(group));
    if (layers_.rows) keep(layers_, group, &Document::rows);
    keep(last_, group, &Document::hidden);
    for (Reading& reading : group) reading.done += reading.now;
  }
  return {};
}

Status TextReader::step(std::span<Reading> group) {
  std::vector<std::int32_t> tokens;
  std::vector<Txn> open;
  std::vector<Segment> segments;
  for (const Reading& reading : group) {
    const auto part = std::span(reading.document->tokens).subspan(reading.done, reading.now);
    tokens.insert(tokens.end(), part.begin(), part.end());
  }
  for (Reading& reading : group) {
    const auto rows = static_cast<int>(reading.now);
    if (rows == 0) continue;
    Result<Txn> txn = reading.timeline.begin(rows, rows);
    if (!txn.ok()) {
      for (Txn& other : open) other.rollback();
      return txn.error();
    }
    segments.push_back(txn->segment());
    open.push_back(std::move(*txn));
  }
  std::vector<std::int32_t> places(tokens.size());
  std::iota(places.begin(), places.end(), 0);
  StepArgs args;
  args.tokens = tokens, args.segments = segments, args.capture.places = places;
  for (const Captured* captured : {&std::as_const(layers_), &std::as_const(last_)})
    if (captured->rows) args.capture.stores[captured->number] = captured->rows.get();
  try {
    decoder_.target().run(args, decoder_.assembly().state());
  } catch (...) {
    for (Txn& txn : open) txn.rollback();
    throw;
  }
  for (Txn& txn : open) txn.commit(txn.rows());
  return {};
}

void TextReader::keep(const Captured& captured, std::span<Reading> group,
                      std::vector<std::uint16_t> Document::* part) {
  const auto width = static_cast<std::size_t>(captured.rows->width());
  std::size_t rows = 0;
  for (const Reading& reading : group) rows += reading.now;
  floats_.resize(rows * width);
  captured.rows->read(0, floats_);
  std::span<const float> left = floats_;
  for (Reading& reading : group) {
    std::vector<std::uint16_t>& to = reading.document->*part;
    const std::size_t values = reading.now * width;
    to.resize(to.size() + values);
    narrow(*pool_, left.first(values), to.data() + to.size() - values);
    left = left.subspan(values);
  }
}

std::vector<int> layers_to_capture(int layers) {
  constexpr int kUsual = 7, kFew = 4;
  if (layers >= kUsual) return {1, layers / 2 - 1, layers - 4};
  if (layers >= kFew) return {1, 2, 3};
  return {-1, layers - 1};
}

std::vector<int> layers_of_block(int layers, int count) {
  constexpr int kFew = 4;
  if (layers < kFew || count < 2) return {layers / 2};
  std::vector<int> found;
  for (int i = 0; i < count; ++i) {
    const int layer = static_cast<int>(std::lround(1 + (layers - 4.0) * i / (count - 1)));
    if (found.empty() || found.back() != layer) found.push_back(layer);
  }
  return found;
}

}  // namespace ft::tune
