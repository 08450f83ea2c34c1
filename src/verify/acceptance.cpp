#include "verify/acceptance.h"

#include <algorithm>
#include <fmt/format.h>

#include "speculation/report_figures.h"

namespace ft {
namespace {

/// Continues one passage; the slot is closed on every way out.
Result<SpeculationReport> continue_passage(Decoder& decoder, std::span<const std::int32_t> prompt,
                                           DrafterKind kind, const AcceptanceSize& size) {
  SlotOptions options;
  options.depth = size.depth, options.max_tokens = size.answer_tokens;
  options.context = decoder.options().context;
  FT_ASSIGN(const std::unique_ptr<Slot> slot, decoder.open(prompt, options, kind));
  Status status;
  while (status.ok() && !slot->prefilled()) status = decoder.prefill(*slot, decoder.options().prefill_chunk);
  Slot* const one = slot.get();
  while (status.ok() && slot->finish == Finish::kNone) decoder.round({&one, 1});
  if (slot->finish == Finish::kError) status = slot->error;
  decoder.close(*slot);
  if (!status.ok()) return status.error();
  return slot->report;
}

}  // namespace

Result<SpeculationReport> measure_acceptance(Backend& backend, const Model& model,
                                             std::span<const std::int32_t> ids, DrafterKind kind,
                                             const AcceptanceSize& size) {
  const auto length = static_cast<std::size_t>(size.prompt_tokens);
  const std::size_t passages = std::min(ids.size() / length, static_cast<std::size_t>(size.passages));
  if (passages == 0) {
    return Error{Code::kInvalid, fmt::format("the text has {} tokens; acceptance needs {} or more",
                                             ids.size(), size.prompt_tokens)};
  }
  DecoderOptions options;
  options.context = size.prompt_tokens + size.answer_tokens + kMaxDraftTokens + 1;
  FT_ASSIGN(const std::unique_ptr<Decoder> decoder, Decoder::make(backend, model, options));
  SpeculationReport sum;
  const std::size_t apart = (ids.size() - length) / std::max<std::size_t>(1, passages - 1);
  for (std::size_t i = 0; i < passages; ++i) {
    FT_ASSIGN(const SpeculationReport found,
              continue_passage(*decoder, ids.subspan(i * apart, length), kind, size));
    add(sum, found);
  }
  return sum;
}

std::string acceptance_text(const SpeculationReport& report) {
  std::string text;
  for (const double share : acceptance_by_position(report))
    text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", share);
  return text;
}

}  // namespace ft
