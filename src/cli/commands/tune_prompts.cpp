#include "cli/commands/tune_prompts.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

#include "base/checksum.h"
#include "base/text_file.h"
#include "base/utf8.h"
#include "text/json_text.h"
#include "tune/topics.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxTextFileBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxGiven = 200'000;
constexpr std::size_t kPieceBytes = 800;   // of a text that the model continues
constexpr std::size_t kHeldOutEvery = 16;  // of the user's prompts
constexpr int kTurnTokens = 96;            // of a user turn that the model makes up
constexpr std::uint64_t kHeldOutSeed = 77, kTrainingSeed = 1;
constexpr std::int64_t kRenderedAt = 1'767'225'600;  // for templates with a date: the same text on any day

/// Pieces of a text, each ending at a line end.
void add_pieces(const std::string& text, std::vector<std::string>& pieces) {
  for (std::size_t at = 0; at < text.size() && pieces.size() < kMaxGiven;) {
    std::size_t end = std::min(at + kPieceBytes, text.size());
    if (const std::size_t line = text.rfind('\n', end); end < text.size() && line != text.npos && line > at)
      end = line + 1;
    while (end < text.size() && !utf8_begins(text[end])) ++end;
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
}

Result<std::vector<std::string>> pieces_of_folder(const std::string& path) {
  std::vector<std::string> files, pieces;
  std::error_code failed;
  for (fs::recursive_directory_iterator at(path, fs::directory_options::skip_permission_denied, failed), end;
       !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with('.')) {
      if (at->is_directory(failed)) at.disable_recursion_pending();
      continue;
    }
    if (at->is_regular_file(failed)) files.push_back(at->path().string());
  }
  if (failed) return Error{Code::kIo, fmt::format("--prompts: {}: {}", path, failed.message())};
  std::ranges::sort(files);
  for (const std::string& file : files) {
    const Result<std::string> text = read_text_file(file, kMaxTextFileBytes);
    const bool readable = text.ok() && utf8_valid(*text) && text->find('\0') == std::string::npos;
    if (readable) add_pieces(*text, pieces);
  }
  return pieces;
}

std::string user_turn(const std::string& text) {
  return fmt::format(R"([{{"role": "user", "content": {}}}])", json_quoted(text));
}

}  // namespace

Result<std::unique_ptr<TunePrompts>> TunePrompts::make(const std::string& path, const LoadedModel& loaded,
                                                       const TuneLengths& lengths) {
  std::unique_ptr<TunePrompts> prompts(new TunePrompts(loaded, lengths));
  FT_TRY(prompts->read(path));
  if (prompts->given_.empty()) prompts->find_turn_prefix();
  std::string all = fmt::format("1 {} {} {} {}", lengths.prompt_tokens, lengths.answer_tokens,
                                prompts->continues_, tune::topics_identity());
  for (const std::string& text : prompts->given_) all += '\0' + text;
  if (loaded.chat_template) all += '\0' + loaded.chat_template->source();
  prompts->identity_ = fingerprint(all);
  return prompts;
}

Status TunePrompts::read(const std::string& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  continues_ = fs::is_directory(path, ignored);
  std::vector<std::string> all;
  if (continues_) {
    FT_ASSIGN(all, pieces_of_folder(path));
  } else {
    FT_ASSIGN(std::string text, read_text_file(path, kMaxTextFileBytes));
    if (!utf8_valid(text))
      return Error{Code::kInvalid,
                   fmt::format("--prompts: {}: the text is not UTF-8; convert it first", path)};
    all = paragraphs(std::move(text));
  }
  if (all.size() < 2) {
    return Error{Code::kInvalid, fmt::format("--prompts: {} has fewer than two texts; write prompts with an "
                                             "empty line between two, or name a folder of texts",
                                             path)};
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool held = i % std::min(kHeldOutEvery, all.size()) == 0;
    (held ? held_out_ : given_).push_back(std::move(all[i]));
  }
  return {};
}

void TunePrompts::find_turn_prefix() {
  if (!loaded_.chat_template) return;
  const std::string mark = "foretoken-user-turn";
  RenderOptions options;
  options.now_s = kRenderedAt;
  const Result<std::string> text = loaded_.chat_template->render(user_turn(mark), "", options);
  if (!text.ok()) return;
  const std::size_t at = text->find(mark);
  if (at == std::string::npos || at == 0) return;
  Result<std::vector<std::int32_t>> ids = loaded_.tokenizer->encode(text->substr(0, at), false);
  if (ids.ok()) turn_prefix_ = std::move(*ids);
}

Result<std::vector<std::int32_t>> TunePrompts::ids_of(const std::string& text) const {
  if (continues_ || !loaded_.chat_template)
    return loaded_.tokenizer->encode(continues_ ? text : text + "\n\n", true);
  RenderOptions options;
  options.now_s = kRenderedAt;
  FT_ASSIGN(const std::string rendered, loaded_.chat_template->render(user_turn(text), "", options));
  return loaded_.tokenizer->encode(rendered, false);
}

std::string TunePrompts::text_of(std::int64_t index) const {
  if (given_.empty()) return tune::template_prompt(kTrainingSeed, index, false);
  return given_[static_cast<std::size_t>(index) % given_.size()];
}

/// The user turn that the model made up, if it is one.
std::optional<std::string> TunePrompts::own_turn(const tune::Answered& last) const {
  std::string text = loaded_.tokenizer->decode(last.answer(), true);
  const std::size_t first = text.find_first_not_of(" \n\t"), end = text.find_last_not_of(" \n\t");
  constexpr std::size_t kMinBytes = 8;
  if (first == std::string::npos || end - first < kMinBytes) return std::nullopt;
  return text.substr(first, end - first + 1);
}

Result<std::optional<tune::Ask>> TunePrompts::ask(std::int64_t index, int stage,
                                                  const tune::Answered& last) const {
  const bool makes_turn = !turn_prefix_.empty() && index % 2 == 1;
  const int answer_stage = makes_turn ? 1 : 0;
  if (stage > answer_stage) return std::optional<tune::Ask>();
  tune::Ask ask;
  ask.sampler.seed = static_cast<std::uint64_t>(2 * index + stage + 1);
  if (stage < answer_stage) {
    ask.prompt = turn_prefix_, ask.sampler.temperature = 1, ask.max_tokens = kTurnTokens;
    return std::optional(std::move(ask));
  }
  std::optional<std::string> text;
  if (makes_turn) text = own_turn(last);
  Result<std::vector<std::int32_t>> ids = ids_of(text ? *text : text_of(index));
  // A template that refuses a text, or a text that is too long: this prompt is left out.
  const auto most = static_cast<std::size_t>(lengths_.prompt_tokens);
  if (!ids.ok() || ids->empty() || (ids->size() > most && !continues_)) return std::optional<tune::Ask>();
  ids->resize(std::min(ids->size(), most));
  constexpr float kTemperatures[] = {0, 0.7F, 1};
  const bool again = !given_.empty() && index >= static_cast<std::int64_t>(given_.size());
  const auto kind = static_cast<std::size_t>(index / 2 % 3);
  ask.sampler.temperature = again && kind == 0 ? kTemperatures[2] : kTemperatures[kind];
  ask.prompt = std::move(*ids), ask.max_tokens = lengths_.answer_tokens;
  return std::optional(std::move(ask));
}

tune::NextAsk TunePrompts::next() const {
  return
      [this](std::int64_t index, int stage, const tune::Answered& last) { return ask(index, stage, last); };
}

Result<std::vector<Prompt>> TunePrompts::held_out(std::size_t count) const {
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; prompts.size() < count; ++i) {
    if (!held_out_.empty() && i >= held_out_.size()) break;
    Prompt prompt;
    prompt.text = held_out_.empty() ? tune::template_prompt(kHeldOutSeed, static_cast<std::int64_t>(i), true)
                                    : held_out_[i];
    FT_ASSIGN(prompt.ids, ids_of(prompt.text));
    prompt.ids.resize(std::min(prompt.ids.size(), static_cast<std::size_t>(lengths_.prompt_tokens)));
    prompt.name = fmt::format("held-out {}", i + 1);
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace ft::cli
