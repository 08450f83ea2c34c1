#include "models/blocks/mtp.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/blocks/layers.h"
#include "models/head_doctor.h"

namespace ft::blocks {
namespace {

/// The draft vocabulary of the MTP head.
struct DraftIds {
  std::vector<std::int32_t> ids;  // empty: all
  ExtraIds extra;

  int count() const { return static_cast<int>(ids.size()) + extra.count; }
};

DraftIds draft_ids(const LoadOptions& options, const ModelFacts& facts) {
  int frequent = options.draft_vocab_size;
  if (frequent < 0) frequent = facts.vocabulary < kLargeVocabulary ? 0 : kFrequentDrafts;
  if (frequent == 0 || frequent >= facts.vocabulary) return {};
  DraftIds drafts;
  drafts.ids.resize(static_cast<std::size_t>(frequent));
  std::iota(drafts.ids.begin(), drafts.ids.end(), 0);
  drafts.extra.count = std::min(kExtraDraftIds, facts.vocabulary - frequent);
  std::vector<std::int32_t>& always = drafts.extra.always;
  for (const int end : facts.eos_ids) {
    if (end >= frequent) always.push_back(end);
  }
  std::ranges::sort(always);
  if (std::ssize(always) > drafts.extra.count) always.resize(static_cast<std::size_t>(drafts.extra.count));
  return drafts;
}

/// The default maximum of bits in which the head's matrices are read: about as many as the target has.
int bits_like(const Program& target) {
  double bits = 0, elements = 0;
  each_matrix(target, [&](const Weight& weight) {
    const auto count = static_cast<double>(weight.rows * weight.cols);
    bits += weight.stored_bits() * count, elements += count;
  });
  constexpr double kFew = 6;
  return bits < kFew * elements ? 4 : 8;
}

/// From pairs (next token, hidden state of the token before it) to the hidden state that predicts the token
/// after the next.
void emit(Program& p, const Model& model, WeightSource& source, const MtpHead& head, DraftIds drafts) {
  const int width = model.facts.width;
  const Row hidden = p.input(width);
  const Row e = norm(p, source, p.embed(model.embedding), "mtp.pre_fc_norm_embedding", head.eps);
  const Row h = norm(p, source, hidden, "mtp.pre_fc_norm_hidden", head.eps);
  const Weight fc = source.matrix("mtp.fc", width, 2 * width);
  const Row joined = p.linear(head.hidden_first ? p.concat(h, e) : p.concat(e, h), {fc})[0];
  const Row x = head.layers(p, joined);
  const Row last = norm(p, source, x, "mtp.norm", head.eps);
  p.capture("hidden", head.captures_before_norm ? x : last);
  p.logits(last, model.lm_head, std::move(drafts.ids), std::move(drafts.extra));
  p.sample();
}

}  // namespace

void build_mtp_head(Model& model, WeightSource& source, const LoadOptions& options, const MtpHead& head) {
  Program program;
  DraftIds drafts = draft_ids(options, model.facts);
  model.draft_vocabulary = drafts.ids.empty() ? model.facts.vocabulary : drafts.count();
  emit(program, model, source, head, std::move(drafts));
  if (const Status status = source.status(); !status.ok()) {
    model.mtp_head.state = state_after(status.error());
    model.mtp_head.sentence = "MTP head: " + status.error().message;
    return;
  }
  const int most = options.draft_bits < 0 ? bits_like(model.target) : options.draft_bits;
  program.set_max_weight_bits(most);
  each_matrix(program, [&](const Weight& weight) {
    if (most > 0 && weight.stored_bits() > most) model.draft_bits = most;
  });
  model.mtp = std::move(program);
}

}  // namespace ft::blocks
