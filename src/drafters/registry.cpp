#include "drafters/registry.h"

#include <algorithm>
#include <fmt/format.h>

#include "drafters/assistant.h"
#include "drafters/dflash.h"
#include "drafters/draft_model.h"
#include "drafters/mtp.h"
#include "drafters/ngram.h"
#include "drafters/recall.h"
#include "models/draft_network.h"

namespace ft {
namespace {

Result<std::unique_ptr<Drafter>> open_mtp(const DrafterContext& context) {
  MtpDrafter::Options options;
  options.slots = context.slots, options.blocks = context.blocks, options.memories = context.memories;
  options.hidden = context.model.facts.width, options.max_depth = context.max_depth;
  options.context = context.context;
  options.images = context.images;
  FT_ASSIGN(std::unique_ptr<MtpDrafter> made,
            MtpDrafter::make(context.backend, *context.model.mtp, *context.captured, options));
  return std::unique_ptr<Drafter>(std::move(made));
}

Result<std::unique_ptr<Drafter>> open_lookup(const DrafterContext& context) {
  return std::unique_ptr<Drafter>(std::make_unique<NgramDrafter>(context.slots, context.context));
}

const DraftNetwork* network_of(const Model& model, std::string_view name) {
  const auto found = std::ranges::find(model.drafters, name, &DraftNetwork::name);
  return found != model.drafters.end() ? &*found : nullptr;
}

std::string not_given(const Model& model, std::string_view name) {
  if (network_of(model, name) != nullptr) return "";
  return fmt::format("no drafter {0} is loaded; start with --drafter {0}=DIR", name);
}

Result<std::unique_ptr<Drafter>> open_dflash(const DrafterContext& context) {
  DflashDrafter::Options options;
  options.slots = context.slots, options.blocks = context.blocks, options.memories = context.memories;
  options.max_depth = context.max_depth, options.context = context.context;
  FT_ASSIGN(
      std::unique_ptr<DflashDrafter> made,
      DflashDrafter::make(context.backend, *network_of(context.model, "dflash"), *context.captured, options));
  return std::unique_ptr<Drafter>(std::move(made));
}

/// The network that makes the features of a token and the network that drafts.
const Program& eagle3_program(const Model& model, std::size_t number) {
  return network_of(model, "eagle3")->programs[number];
}

CaptureRequest eagle3_request(const Model& model) {
  CaptureRequest request = MtpDrafter::request(network_of(model, "eagle3")->captured_width);
  request.name = network_of(model, "eagle3")->captures.name;
  return request;
}

Result<std::unique_ptr<Drafter>> open_eagle3(const DrafterContext& context) {
  const Program& head = eagle3_program(context.model, 1);
  MtpDrafter::Options options;
  options.name = "eagle3";
  options.slots = context.slots, options.blocks = context.blocks, options.memories = context.memories;
  options.hidden = network_of(context.model, "eagle3")->captured_width;
  options.fed_back = find_capture(head, "hidden")->in.width;
  options.features = &eagle3_program(context.model, 0);
  options.images = context.images;
  options.max_depth = context.max_depth, options.context = context.context;
  FT_ASSIGN(std::unique_ptr<MtpDrafter> made,
            MtpDrafter::make(context.backend, head, *context.captured, options));
  return std::unique_ptr<Drafter>(std::move(made));
}

Result<std::unique_ptr<Drafter>> open_assistant(const DrafterContext& context) {
  const DraftNetwork& network = *network_of(context.model, "assistant");
  AssistantDrafter::Options options;
  options.slots = context.slots, options.hidden = network.captured_width;
  options.max_depth = context.max_depth;
  FT_ASSIGN(std::unique_ptr<AssistantDrafter> made,
            AssistantDrafter::make(context.backend, network.programs.front(), *context.target_state,
                                   *context.captured, options));
  return std::unique_ptr<Drafter>(std::move(made));
}

Result<std::unique_ptr<Drafter>> open_model(const DrafterContext& context) {
  ModelDrafter::Options options;
  options.slots = context.slots, options.blocks = context.blocks, options.memories = context.memories;
  options.max_depth = context.max_depth, options.context = context.context;
  FT_ASSIGN(std::unique_ptr<ModelDrafter> made,
            ModelDrafter::make(context.backend, *network_of(context.model, "model"), options));
  return std::unique_ptr<Drafter>(std::move(made));
}

Result<std::unique_ptr<Drafter>> open_recall(const DrafterContext& context) {
  if (context.recall_bytes <= 0) return std::unique_ptr<Drafter>();
  return std::unique_ptr<Drafter>(std::make_unique<RecallDrafter>(context.slots, context.recall_bytes));
}

constexpr DrafterSpec kSpecs[] = {
    {"mtp", [](const Model& model) { return model.mtp ? std::string() : model.mtp_head.sentence; },
     [](const Model& model) { return &*model.mtp; },
     [](const Model& model) { return MtpDrafter::request(model.facts.width); },
     [](const Model& model) { return MtpDrafter::memory_bytes(model.facts.width); }, open_mtp},
    {"eagle3", [](const Model& model) { return not_given(model, "eagle3"); },
     [](const Model& model) { return &eagle3_program(model, 1); }, eagle3_request,
     [](const Model& model) { return MtpDrafter::memory_bytes(network_of(model, "eagle3")->captured_width); },
     open_eagle3},
    {"dflash", [](const Model& model) { return not_given(model, "dflash"); },
     [](const Model& model) { return &network_of(model, "dflash")->programs[1]; },
     [](const Model& model) { return DflashDrafter::request(*network_of(model, "dflash")); },
     [](const Model&) { return std::int64_t{0}; }, open_dflash},
    {"assistant", [](const Model& model) { return not_given(model, "assistant"); },
     [](const Model& model) { return network_of(model, "assistant")->programs.data(); },
     [](const Model& model) { return AssistantDrafter::request(model.facts.width); },
     [](const Model&) { return std::int64_t{0}; }, open_assistant},
    {"model", [](const Model& model) { return not_given(model, "model"); },
     [](const Model& model) { return network_of(model, "model")->programs.data(); },
     [](const Model&) { return CaptureRequest(); }, [](const Model&) { return std::int64_t{0}; }, open_model},
    {"recall", [](const Model&) { return std::string(); },
     [](const Model&) -> const Program* { return nullptr; }, [](const Model&) { return CaptureRequest(); },
     [](const Model&) { return std::int64_t{0}; }, open_recall},
    {"lookup", [](const Model&) { return std::string(); },
     [](const Model&) -> const Program* { return nullptr; }, [](const Model&) { return CaptureRequest(); },
     [](const Model&) { return std::int64_t{0}; }, open_lookup},
};
static_assert(std::size(kSpecs) + 2 <= kMaxDrafters,
              "the set and a bench's synthetic drafter are added to them");

const DrafterSpec* find(std::string_view name) {
  const auto* found = std::ranges::find(kSpecs, name, &DrafterSpec::name);
  return found != std::end(kSpecs) ? found : nullptr;
}

}  // namespace

std::span<const DrafterSpec> drafter_specs() { return kSpecs; }

std::vector<const DrafterSpec*> drafters_of(const Model& model) {
  std::vector<const DrafterSpec*> list;
  for (const DrafterSpec& spec : kSpecs) {
    if (spec.problem(model).empty()) list.push_back(&spec);
  }
  return list;
}

std::vector<const Program*> drafter_networks(const Model& model) {
  std::vector<const Program*> networks;
  for (const DrafterSpec* spec : drafters_of(model)) {
    if (const Program* network = spec->network(model)) networks.push_back(network);
  }
  return networks;
}

Result<DrafterKind> DrafterKind::parse(std::string_view name) {
  for (const DrafterKind kind : {kAuto, kNone}) {
    if (name == kind.name()) return kind;
  }
  if (name == "ngram") return kLookup;  // its other name
  if (const DrafterSpec* spec = find(name)) return DrafterKind(spec->name);
  std::string names = "auto";
  for (const DrafterSpec& spec : kSpecs) names += fmt::format(", {}", spec.name);
  return Error{Code::kInvalid, fmt::format("drafter '{}' is unknown; choose {} or none", name, names)};
}

Result<DrafterChoice> parse_drafter(std::string_view text) {
  const std::size_t equals = text.find('=');
  FT_ASSIGN(const DrafterKind kind, DrafterKind::parse(text.substr(0, equals)));
  if (equals == std::string_view::npos) return DrafterChoice{kind, ""};
  std::string names;
  bool has_folder = false;
  for (const DraftFormat* format : draft_formats()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format->name);
    has_folder = has_folder || format->name == kind.name();
  }
  if (!has_folder) {
    return Error{Code::kInvalid,
                 fmt::format("drafter {} is not loaded from a folder; these are: {}", kind.name(), names)};
  }
  std::string directory(text.substr(equals + 1));
  if (directory.empty()) {
    return Error{Code::kInvalid, fmt::format("expected {0}=DIR with a folder, found '{0}='", kind.name())};
  }
  return DrafterChoice{kind, std::move(directory)};
}

std::string drafter_problem(DrafterKind kind, const Model& model) {
  const DrafterSpec* spec = find(kind.name());
  return spec != nullptr ? spec->problem(model) : std::string();
}

std::string drafter_name(DrafterKind kind, const Model& model) {
  if (kind == DrafterKind::kAuto) {
    std::string names;
    for (const DrafterSpec* spec : drafters_of(model)) {
      if (spec->name == DrafterKind::kRecall.name()) continue;  // its options decide whether it exists
      names += fmt::format("{}{}", names.empty() ? "" : "+", spec->name);
    }
    return names;
  }
  const bool refused = !drafter_problem(kind, model).empty();
  return std::string(refused ? DrafterKind::kLookup.name() : kind.name());
}

}  // namespace ft
