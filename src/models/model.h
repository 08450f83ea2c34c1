// A loaded model: its facts, its programs and the state of its MTP head. Weights stay in the mapped files
// until a backend compiles a program, so loading takes milliseconds at any size. Owner: the caller; it must
// outlive every compile. Thread: immutable after load_model. Errors name file and tensor.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "format/config_files.h"
#include "models/captured_layers.h"
#include "models/model_facts.h"
#include "models/vision.h"
#include "program/backend.h"
#include "program/program.h"

namespace ft {

/// The head doctor's findings about the MTP head.
struct HeadReport {
  enum class State {
    kReady,       // it can draft
    kRepaired,    // it can draft after a repair, which the sentence names
    kNone,        // the config names no MTP head
    kMissing,     // the config names an MTP head, but its tensors are absent
    kIncomplete,  // some tensors are absent
    kZeroed,      // all values of a matrix are zero
    kWrongShape,
    kNoMemory,  // memory ran out while it was examined or built
  };
  State state = State::kNone;
  std::string sentence;  // one line: the problem, the place, the next step
  std::string file;      // holds the MTP head, relative to the model
  bool usable() const { return state == State::kReady || state == State::kRepaired; }
};
std::string_view head_state_name(HeadReport::State state);

/// A drafter in a separate folder, as given by `--drafter NAME=DIR`.
struct DraftFolder {
  std::string name, directory;
};

struct Model;

/// Such a drafter after the load: its programs for this target (models/draft_network.h makes them).
struct DraftNetwork {
  std::string name, directory;
  std::unique_ptr<format::Checkpoint> checkpoint;
  CapturedLayers captures;  // of the target; the drafter reads their rows side by side
  int captured_width = 0;   // of all of them together; 0: it reads none
  /// Over one layout of state. The drafter knows the purpose of each.
  std::vector<Program> programs;
  std::string design;               // of a format that has several: "DFlash2"
  int most_drafts = 0;              // of one pass that drafts a block
  bool drafts_from_anchor = false;  // the row of the pending token drafts as well
  std::int32_t mask_token = -1;     // in a block, marks the positions to draft
  int vocabulary = 0;               // of a drafting model: ids above it are unknown to it
  std::int64_t context = 0;         // of a drafting model: tokens that it can read
  std::int64_t parameters = 0;      // without the target's shared ones, counted in weights
  std::string quantisation;
};

struct Model {
  std::string directory;
  std::string name;  // the last part of the directory
  ModelFacts facts;
  std::unique_ptr<format::Checkpoint> checkpoint;
  Program target;              // captures `hidden`, after the final norm, and the layers that drafters read
  std::optional<Program> mtp;  // takes hidden states; captures those to feed back
  HeadReport mtp_head;
  Weight embedding, lm_head;  // of the target, for the networks of drafters
  std::vector<DraftNetwork> drafters;
  std::optional<VisionModel> vision;  // images in prompts
  std::string vision_problem;         // why there are none, one sentence; empty if some exist
  int draft_vocabulary = 0;           // tokens that the MTP head can draft at a time
  int draft_bits = 0;  // some of the MTP head's matrices are requantised to it; 0: all stay as stored
};

/// The default draft vocabulary of a model with kLargeVocabulary or more tokens: the first kFrequentDrafts
/// ids and kExtraDraftIds extra ids (docs/decisions/009).
inline constexpr int kLargeVocabulary = 65536;
inline constexpr int kFrequentDrafts = 32768;
inline constexpr int kExtraDraftIds = 2048;

struct LoadOptions {
  /// Draft vocabulary of the MTP head: the ids below this, the end tokens and those seen last in prompt and
  /// answer (kExtraDraftIds of both kinds); 0: all; -1: the default above. Tokenizers number tokens by
  /// frequency, so the first ids are the likely ones. A small draft vocabulary makes drafts faster and leaves
  /// answers unchanged.
  int draft_vocab_size = -1;
  /// The MTP head's matrices with more bits are requantised to this many, 4 or 8 (cpu backend). 0: as stored;
  /// -1: like the target, 4 if its matrices have less than 6 bits on average, otherwise 8
  /// (docs/decisions/013). Fewer bits make drafts faster and leave answers unchanged.
  int draft_bits = -1;
  /// Bits of the scales and biases of a GGUF file's K types: 32 keeps the file's exact values; 16 takes less
  /// memory and moves each scale by up to 0.05%.
  int gguf_scale_bits = 32;
  /// Drafters in separate folders; each name once.
  std::vector<DraftFolder> drafters = {};
  /// A folder with a grafted MTP head: mtp.safetensors in place of the model's own, and config.json, whose
  /// keys replace the model's (RFC 7396). Empty: none.
  std::string head_directory = {};
  /// The layers that the target captures; load_model adds the layers that the configs of `drafters` name.
  std::vector<CapturedLayers> captures = {};
};

/// The draft vocabulary in words: "all 8192 tokens", or "34816 of 248320 tokens at a time, in 4 bits" if some
/// matrices of the MTP head are requantised; empty without an MTP head.
std::string draft_vocabulary_text(const Model& model);

Result<Model> load_model(const std::string& directory, const LoadOptions& options = {});
/// The same from loaded parts; messages name `name` instead of a folder.
Result<Model> make_model(const std::string& name, const format::ConfigFiles& files,
                         format::Checkpoint checkpoint, const LoadOptions& options);

}  // namespace ft
