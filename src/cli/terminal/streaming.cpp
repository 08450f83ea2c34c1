#include "cli/terminal/streaming.h"

#include <algorithm>
#include <fmt/format.h>

#include "cli/terminal/reports.h"
#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

constexpr int kMinAnswerColumns = 20;

}  // namespace

void Streaming::write(std::string_view text) {
  if (wrap_) return put(wrap_->add(text));
  put(text);
}

void Streaming::put(std::string_view text) {
  if (text.empty()) return;
  if (part_ == Part::kReasoning && !terminal_.out_is_terminal()) {
    terminal_.err(Style::kDim, text);
    return;
  }
  terminal_.out(part_ == Part::kText ? Style::kPlain : Style::kDim, text);
  open_line_ = text.back() != '\n';
  terminal_.flush();
}

void Streaming::enter(Part part) {
  if (part_ == part) return;
  if (part_ == Part::kReasoning && !terminal_.out_is_terminal()) terminal_.err("\n");
  end_part();
  part_ = part;
  const bool prose = part == Part::kText || part == Part::kReasoning;
  if (prose && terminal_.out_is_terminal())
    wrap_.emplace(static_cast<std::size_t>(std::max(terminal_.columns() - 1, kMinAnswerColumns)));
}

/// Its last word, and the end of its last line.
void Streaming::end_part() {
  if (wrap_) put(wrap_->end());
  wrap_.reset();
  if (open_line_) put("\n");
}

void Streaming::show(const Event& event) {
  if (event.kind == Event::Kind::kDepth) return terminal_.note(event.text);
  if (mode_ == Mode::kSilent) return;
  switch (event.kind) {
    case Event::Kind::kText:
      enter(Part::kText);
      break;
    case Event::Kind::kReasoning:
      enter(Part::kReasoning);
      break;
    case Event::Kind::kToolBegin:
      part_ = part_ == Part::kTool ? Part::kNone : part_;  // each call begins on a new line
      enter(Part::kTool);
      write(event.text + " ");
      return;
    case Event::Kind::kToolArguments:
      break;
    case Event::Kind::kPromptToken:
    case Event::Kind::kToken:
    case Event::Kind::kToolEnd:
    case Event::Kind::kDepth:
    case Event::Kind::kEnd:
      return;
  }
  write(event.text);
}

void Streaming::end() {
  if (mode_ == Mode::kSilent) return;
  end_part();
  terminal_.flush();
}

namespace {

/// " (mtp 12 of 20, lookup 5 of 5)"; empty if one drafter drafted all.
std::string shares_text(const SpeculationReport& report) {
  std::string text;
  int drafters = 0;
  for (const DrafterShare& share : report.by_drafter) {
    if (share.rounds == 0) continue;
    text +=
        fmt::format("{}{} {} of {}", drafters++ == 0 ? "" : ", ", share.name, share.accepted, share.drafted);
  }
  return drafters > 1 ? fmt::format(" ({})", text) : "";
}

}  // namespace

std::string answer_note(const GatheredAnswer& answer) {
  const Report& report = answer.report;
  std::string drafting = fmt::format("no drafts: {}", report.reason);
  if (report.engaged) {
    drafting = fmt::format("{} drafted {}, accepted {}, {:.2f} tokens per round", report.drafter,
                           report.speculation.drafted, report.speculation.accepted,
                           tokens_per_round(report.speculation));
    drafting += shares_text(report.speculation);
  }
  return fmt::format("{} tokens, {:.1f} tokens/s; prompt {} tokens in {:.0f} ms; {}; {}",
                     report.completion_tokens, report.tokens_per_second(), report.prompt_tokens,
                     report.prompt_ms, drafting, finish_text(answer));
}

}  // namespace ft::cli
