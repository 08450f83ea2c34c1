// Assembly: everything of one model on one backend that its slots share: the compiled target and its
// timelines, the drafters and the rows that they read, the image encoder. Owner: speculation/decoder.h.
// Thread: the engine thread. Cost: make() packs all weights. Errors: from compile() and from allocation.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "drafters/captured_rows.h"
#include "drafters/drafter_set.h"
#include "drafters/image_rows.h"
#include "drafters/registry.h"
#include "drafters/synthetic.h"
#include "models/model.h"
#include "speculation/image_encoder.h"
#include "speculation/snapshot.h"
#include "timeline/timeline.h"

namespace ft {

struct DecoderOptions {
  int slots = 1;
  std::int64_t context = 4096;      // of each slot, in tokens
  int prefill_chunk = 0;            // prompt rows of one step; 0: the backend's own number
  int max_depth = kMaxDraftTokens;  // drafts of a slot in a round, at most kMaxDraftTokens
  int logit_rows = 0;               // rows with logits that a caller of score() needs; 0: as many as a round
  std::int64_t cache_bytes = 0;     // memory that snapshots may hold; unused, it costs nothing
  int snapshots = 4096;             // that there may be within those bytes
  std::int64_t recall_bytes = 0;    // memory for texts of earlier requests to draft from; 0: none
  std::int64_t max_pixels = 0;      // of a resized image of a prompt; 0: images::kDefaultMaxPixels
};

class Assembly {
 public:
  /// `backend` and `model` must outlive it.
  static Result<std::unique_ptr<Assembly>> make(Backend& backend, const Model& model,
                                                const DecoderOptions& options);

  /// Key/value blocks of a slot of this context, with the rows that a round reserves beyond it.
  static int blocks_of(std::int64_t context, int max_depth);
  /// `options` with backend-dependent defaults resolved.
  static DecoderOptions resolved(DecoderOptions options, const Backend& backend, const Model& model);

  const Model& model() const { return model_; }
  Backend& backend() const { return backend_; }
  const DecoderOptions& options() const { return options_; }
  Executable& target() const { return *target_; }
  State& state() const { return *state_; }
  TimelinePool& pool() const { return *pool_; }
  const SnapshotRoom& room() const { return room_; }
  /// Rows that drafters read, by Capture::number.
  CapturedSet captured() const;
  ImageEncoder* encoder() const { return encoder_.get(); }  // null: images_problem() says why
  ImageRows* images() const { return images_.get(); }       // null as well
  /// Why prompts cannot have images, one sentence; empty if they can.
  const std::string& images_problem() const { return images_problem_; }

  /// The drafter for a request of this kind; null: none.
  Drafter* drafter(DrafterKind kind) const;
  /// All drafters that the model can have, by number.
  std::span<const std::unique_ptr<Drafter>> drafters() const { return drafters_; }
  /// The drafter with this number, including the set of all; null: there is none.
  Drafter* drafter_number(int number) const;
  /// The first drafter that was loaded from a folder, else the first with a network; null: none has one.
  Drafter* network_drafter() const;
  /// Why the drafter `kind` is not available; empty if it is.
  std::string drafter_problem(DrafterKind kind) const;
  /// For measuring at a stated acceptance: the drafter of SyntheticDrafter::kKind. Replaces an earlier one.
  SyntheticDrafter& force(std::vector<double> schedule, std::uint64_t seed);

  std::int64_t packed_bytes() const;
  /// Returns the memory of free blocks and slots to the system. Call it between two steps.
  void release_unused() const;
  /// The pool of the first drafter that has a separate cache; null: none has.
  const TimelinePool* draft_pool() const;

 private:
  Assembly(Backend& backend, const Model& model, const DecoderOptions& options)
      : backend_(backend), model_(model), options_(options) {}
  Status build();
  Status build_images();
  Status build_drafters(int step_rows, int blocks_each);
  Status capture_for(std::span<const DrafterSpec* const> specs, int step_rows);
  CapturedRows* captured(const std::string& name) const;

  Backend& backend_;
  const Model& model_;
  DecoderOptions options_;
  std::unique_ptr<Executable> target_;
  std::unique_ptr<State> state_;
  std::unique_ptr<TimelinePool> pool_;
  SnapshotRoom room_;
  std::array<std::unique_ptr<CapturedRows>, kMaxCaptures> captured_;  // [Capture::number]
  std::unique_ptr<ImageEncoder> encoder_;
  std::unique_ptr<ImageRows> images_;
  std::string images_problem_;
  std::vector<std::unique_ptr<Drafter>> drafters_;  // [Drafter::number()]
  std::unique_ptr<DrafterSet> round_robin_;         // the same drafters in turns, for the matrix
  std::unique_ptr<DrafterSet> drafter_set_;         // the drafter `auto`; null: there is only one drafter
  std::unique_ptr<SyntheticDrafter> synthetic_;
};

}  // namespace ft
