// The drafters of this build. A new one is a class and an entry in registry.cpp, which states the parts of
// the target that it needs, its cost and its memory.
//   DrafterKind   the name of a drafter, checked once; requests, flags and tests pass it on
//   DrafterSpec   one drafter: whether a model has what it needs, and how it is opened
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "drafters/captured_rows.h"
#include "drafters/drafter.h"
#include "drafters/image_rows.h"
#include "models/model.h"

namespace ft {

class DrafterKind {
 public:
  static const DrafterKind kAuto;  // the best that the model allows
  static const DrafterKind kNone;  // plain decoding
  static const DrafterKind kMtp;
  static const DrafterKind kLookup;
  static const DrafterKind kEagle3;  // needs a folder
  static const DrafterKind kDflash;
  static const DrafterKind kAssistant;
  static const DrafterKind kModel;
  static const DrafterKind kRecall;

  /// "auto", "none" or a name of the registry; kInvalid with the list otherwise.
  static Result<DrafterKind> parse(std::string_view name);
  /// `name` must live as long as the program.
  explicit constexpr DrafterKind(std::string_view name) : name_(name) {}

  constexpr std::string_view name() const { return name_; }
  friend constexpr bool operator==(const DrafterKind&, const DrafterKind&) = default;
  friend constexpr auto operator<=>(const DrafterKind&, const DrafterKind&) = default;

 private:
  std::string_view name_;
};

inline constexpr DrafterKind DrafterKind::kAuto{"auto"};
inline constexpr DrafterKind DrafterKind::kNone{"none"};
inline constexpr DrafterKind DrafterKind::kMtp{"mtp"};
inline constexpr DrafterKind DrafterKind::kLookup{"lookup"};
inline constexpr DrafterKind DrafterKind::kEagle3{"eagle3"};
inline constexpr DrafterKind DrafterKind::kDflash{"dflash"};
inline constexpr DrafterKind DrafterKind::kAssistant{"assistant"};
inline constexpr DrafterKind DrafterKind::kModel{"model"};
inline constexpr DrafterKind DrafterKind::kRecall{"recall"};

struct DrafterContext {
  Backend& backend;
  const Model& model;
  State* target_state = nullptr;      // of the target's timelines
  CapturedRows* captured = nullptr;   // of its request; null if it asked for none
  const ImageRows* images = nullptr;  // null: prompts are text
  int slots = 1;
  int blocks = 1;                   // key/value blocks of its cache, if it has one
  int memories = 0;                 // sequences saved at once, without the slots
  int max_depth = kMaxDraftTokens;  // drafts of a slot in a round
  std::int64_t context = 0;         // tokens of a slot, at most
  std::int64_t recall_bytes = 0;    // for texts of earlier requests; 0: none are kept
};

struct DrafterSpec {
  std::string_view name;
  /// Why this model cannot have it, one sentence; empty if it can. The functions below are asked only then.
  std::string (*problem)(const Model& model);
  /// The network of the drafter; null: it has none.
  const Program* (*network)(const Model& model);
  CaptureRequest (*request)(const Model& model);
  /// Maximum bytes of one memory, without its blocks and its slot.
  std::int64_t (*memory_bytes)(const Model& model);
  /// Null: the options leave it out.
  Result<std::unique_ptr<Drafter>> (*open)(const DrafterContext& context);
};

/// Reads the value of --drafter: a drafter's name, or NAME=DIR for one that is loaded from a folder. kInvalid
/// with the list of names otherwise.
struct DrafterChoice {
  DrafterKind kind;
  std::string directory;  // empty: a name alone
};
Result<DrafterChoice> parse_drafter(std::string_view text);

/// In the order of their numbers in a decoder.
std::span<const DrafterSpec> drafter_specs();
/// The drafters that this model can have.
std::vector<const DrafterSpec*> drafters_of(const Model& model);
/// The networks of drafters_of(model).
std::vector<const Program*> drafter_networks(const Model& model);
/// Why this model cannot have the drafter; empty if it can, and for auto and none.
std::string drafter_problem(DrafterKind kind, const Model& model);
/// The drafter of a request of this kind, as reports name it: resolves auto, and the replacement of a
/// drafter that the model cannot have.
std::string drafter_name(DrafterKind kind, const Model& model);

}  // namespace ft
