// The toy model in a Decoder on the reference backend, with short calls that generate an answer. For tests;
// header-only. Takes about 50 us per row.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <utility>
#include <vector>

#include "backends/ref/backend.h"
#include "speculation/decoder.h"
#include "tests/toy_model.h"

namespace ft::test {

class ToyDecoder {
 public:
  explicit ToyDecoder(int slots, const ToyOptions& toy_options = {}, std::int64_t context = 256,
                      std::int64_t cache_bytes = 0)
      : ToyDecoder(make_ref_backend(), slots, toy_options, context, cache_bytes) {}
  ToyDecoder(std::unique_ptr<Backend> backend, int slots, const ToyOptions& toy_options = {},
             std::int64_t context = 256, std::int64_t cache_bytes = 0, int max_depth = kMaxDraftTokens)
      : toy_(toy_options), backend_(std::move(backend)) {
    model_.name = "toy";
    model_.facts.width = toy_options.hidden;
    model_.facts.vocabulary = toy_options.vocabulary;
    model_.target = toy_.target;
    if (toy_options.only_block) {
      model_.mtp_head.sentence = "it has no head";
    } else {
      model_.mtp = toy_.head;
      model_.mtp_head.state = HeadReport::State::kReady;
    }
    if (toy_options.folders) add_drafters(toy_options);
    DecoderOptions options;
    options.slots = slots;
    options.recall_bytes = toy_options.folders ? 1 << 20 : 0;
    options.context = context;
    options.prefill_chunk = 64;
    options.max_depth = max_depth;
    options.cache_bytes = cache_bytes;
    decoder_ = std::move(*Decoder::make(*backend_, model_, options));
  }

  Decoder* operator->() { return decoder_.get(); }
  Decoder& operator*() { return *decoder_; }

  /// A slot after its prompt, which is fed in chunks of `chunk` rows.
  std::unique_ptr<Slot> open(const std::vector<std::int32_t>& prompt, const SlotOptions& options,
                             DrafterKind kind, int chunk = 64) {
    Result<std::unique_ptr<Slot>> slot = decoder_->open(prompt, options, kind);
    EXPECT_TRUE(slot.ok()) << (slot.ok() ? "" : slot.error().message);
    while (!(*slot)->prefilled()) EXPECT_TRUE(decoder_->prefill(**slot, chunk).ok());
    return std::move(*slot);
  }

  /// The output of one request alone.
  std::vector<std::int32_t> answer(const std::vector<std::int32_t>& prompt, const SlotOptions& options,
                                   DrafterKind kind = DrafterKind::kNone) {
    const std::unique_ptr<Slot> slot = open(prompt, options, kind);
    finish(*slot);
    std::vector<std::int32_t> tokens = output(*slot);
    decoder_->close(*slot);
    return tokens;
  }

  void finish(Slot& slot) {
    Slot* one = &slot;
    while (slot.finish == Finish::kNone) decoder_->round({&one, 1});
  }

  static std::vector<std::int32_t> output(const Slot& slot) {
    return {slot.tokens.begin() + slot.prompt_tokens, slot.tokens.end()};
  }

 private:
  void add_drafters(const ToyOptions& toy_options) {
    DraftNetwork block;
    block.name = "dflash";
    block.captures = {"dflash", {-1, 0}};
    block.captured_width = 2 * toy_options.hidden;
    block.programs = {toy_.context, toy_.block};
    block.most_drafts = 12;
    block.mask_token = toy_options.vocabulary - 1;
    block.drafts_from_anchor = toy_options.anchor;
    model_.drafters.push_back(std::move(block));
    if (toy_options.only_block) return;
    DraftNetwork labelled;
    labelled.name = "eagle3";
    labelled.captures = {"eagle3", {-1, 0}};
    labelled.captured_width = 2 * toy_options.hidden;
    labelled.programs = {toy_.features, toy_.labelled};
    model_.drafters.push_back(std::move(labelled));
    DraftNetwork assistant;
    assistant.name = "assistant";
    assistant.captured_width = toy_options.hidden;
    assistant.programs = {toy_.assistant};
    model_.drafters.push_back(std::move(assistant));
    DraftNetwork itself;
    itself.name = "model";
    itself.programs = {toy_.target};
    itself.vocabulary = toy_options.vocabulary, itself.context = 1 << 20;
    model_.drafters.push_back(std::move(itself));
  }

  ToyModel toy_;
  std::unique_ptr<Backend> backend_;
  Model model_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace ft::test
