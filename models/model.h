// A loaded model: its config, its programs and the state of its MTP head. Weights stay in the mapped files
// until a backend compiles a program, so loading costs milliseconds whatever the size. Owner: the caller;
// must outlive every compile. Thread: immutable after load_model. Errors name file and tensor.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/checkpoint.h"
#include "format/config.h"
#include "program/backend.h"
#include "program/program.h"

namespace ft {

/// The head doctor's finding.
struct HeadReport {
  enum class State {
    kReady,       // drafts
    kMended,      // drafts, after a repair that the sentence names
    kNone,        // the config names no head
    kMissing,     // the config names one, its tensors are absent
    kIncomplete,  // some tensors are absent
    kZeroed,      // a matrix holds nothing but zeros
    kWrongShape,
    kNoMemory,  // memory ran out while it was examined or built
  };
  State state = State::kNone;
  std::string sentence;  // one line: what is wrong, where, what to do
  std::string file;      // that holds the head, relative to the model
  bool usable() const { return state == State::kReady || state == State::kMended; }
};
std::string_view head_state_name(HeadReport::State state);

struct Model {
  std::string directory;
  std::string name;          // last part of the directory
  std::string family;        // "qwen3_5"
  std::string quantisation;  // "affine 4-bit group 32, 8-bit group 64; bf16"
  format::ModelConfig config;
  std::unique_ptr<format::Checkpoint> checkpoint;
  Program trunk;               // Tap: hidden states after the final norm
  std::optional<Program> mtp;  // Input: hidden states; Tap: those to feed back
  HeadReport head;
  int draft_vocabulary = 0;  // tokens that the head drafts among at a time
  int draft_bits = 0;        // that some of the head's matrices are requantised to; 0: all stay as stored
  bool tied = false;
  std::int64_t parameters = 0;  // of trunk and head, counted in weights, not in codes
};

/// What a head drafts among, unless LoadOptions says otherwise: of a vocabulary of kLargeVocabulary and more
/// the first kFrequentDrafts ids and kSpareDrafts others (docs/decisions/009).
inline constexpr int kLargeVocabulary = 65536;
inline constexpr int kFrequentDrafts = 32768;
inline constexpr int kSpareDrafts = 2048;

struct LoadOptions {
  /// The head drafts among the ids below this, the end tokens and those that text and answer have shown last
  /// (kSpareDrafts of both kinds); 0: all; -1: as above. Tokenizers number their tokens by how frequent they
  /// are, so the first ids are the likely ones. Drafts are faster so; answers are the same.
  int frequent_drafts = -1;
  /// The head's matrices that are stored in more bits are requantised to so many, 4 or 8 (cpu backend); 0: as
  /// stored; -1: as the trunk, 4 where its matrices have less than 6 bits on the average, else 8
  /// (docs/decisions/013). Drafts are faster so; answers are the same.
  int draft_bits = -1;
};

/// What the head drafts among: "all 8192 tokens" or "34816 of 248320 tokens at a time, in 4 bits" if some of
/// its matrices are requantised; empty without a head.
std::string draft_vocabulary_text(const Model& model);

Result<Model> load_model(const std::string& directory, const LoadOptions& options = {});
/// The same from parts that are there already; `name` stands where messages name a folder.
Result<Model> make_model(const std::string& name, format::ModelConfig config, format::Checkpoint checkpoint,
                         const LoadOptions& options);

/// Bytes of one position's key or value of one head of `width`: float16, or 8-bit codes and their scale.
constexpr std::int64_t kv_row_bytes(std::int64_t width, int kv_bits) {
  return kv_bits == 8 ? width + std::int64_t{sizeof(float)} : 2 * width;
}

/// Bytes of key/value cache and recurrent state of one sequence of `context` tokens, with keys and values as
/// the cpu backend keeps them.
std::int64_t state_bytes(const Program& program, std::int64_t context, int kv_bits);

}  // namespace ft
