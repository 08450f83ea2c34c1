#include "cli/commands/inspection.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/text_layout.h"
#include "cli/terminal/terminal.h"
#include "drafters/registry.h"
#include "lab/instruction_cost.h"
#include "models/draft_network.h"
#include "sched/admission.h"
#include "speculation/image_encoder.h"

namespace ft::cli {
namespace {

struct Counted final : Describer {
  void vector(const Weight& weight, std::int64_t size) override { add(weight, size); }
  void matrix(const Weight& weight, std::int64_t rows, std::int64_t cols, std::int64_t) override {
    add(weight, rows * cols);
  }
  void add(const Weight& weight, std::int64_t count) { parameters += count, bytes += weight.bytes(); }
  std::int64_t parameters = 0, bytes = 0;
};

void inspect_tower(const Model& model, std::int64_t context, const Backend& backend, Inspection& found) {
  found.images_problem = model.vision_problem;
  if (!model.vision) {
    if (found.images_problem.empty()) found.images_problem = "this model reads text only";
    return;
  }
  Counted counted;
  for (const Program* program : {&model.vision->tower, &model.vision->merger}) {
    for (const Instruction& instruction : program->instructions()) describe(instruction, counted);
  }
  const auto places = std::ssize(model.vision->position_table);
  found.tower_parameters = counted.parameters + places;
  found.tower_bytes = counted.bytes + 2 * places;  // positions are stored in 16 bits
  found.max_pixels = pixel_limit(model.vision->settings, 0);
  DecoderOptions one;
  one.context = context;
  found.image_bytes = image_bytes(backend, model, one);
}

}  // namespace

std::string count_text(std::int64_t count) {
  constexpr double kBillion = 1e9, kMillion = 1e6, kFirstOfBillions = 999.5e6;
  const auto number = static_cast<double>(count);
  return number >= kFirstOfBillions ? fmt::format("{:.3g} billion", number / kBillion)
                                    : fmt::format("{:.3g} million", number / kMillion);
}

std::string tower_text(const Inspection& found) {
  if (!found.images_problem.empty()) return "none: " + found.images_problem;
  const double bits =
      8 * static_cast<double>(found.tower_bytes) / static_cast<double>(found.tower_parameters);
  return fmt::format("{} parameters in {:.3g} bits, {}; {} more while it reads pictures of {} pixels",
                     count_text(found.tower_parameters), bits,
                     bytes_text(static_cast<double>(found.tower_bytes)),
                     bytes_text(static_cast<double>(found.image_bytes)), found.max_pixels);
}

Inspection inspect(const Model& model, const Machine& machine, std::int64_t context, const Backend& backend,
                   bool with_program) {
  const ModelFacts& facts = model.facts;
  Inspection found;
  found.directory = model.directory, found.name = model.name;
  found.family = facts.family, found.quantisation = facts.quantisation;
  found.parameters = facts.parameters, found.active_parameters = facts.active_parameters;
  found.experts = facts.experts, found.experts_per_token = facts.experts_per_token;
  found.expert_size = facts.expert_size;
  found.file_bytes = static_cast<std::int64_t>(model.checkpoint->total_bytes());
  found.step_bytes = model.target.bytes_per_step(), found.held_bytes = model.target.bytes_held();
  found.layers = facts.layers;
  found.full_attention_layers = facts.full_attention_layers;
  found.hidden = facts.width, found.vocabulary = facts.vocabulary;
  found.draft_bits = model.draft_bits;
  found.draft_vocabulary = model.draft_vocabulary, found.drafted_among = draft_vocabulary_text(model);
  found.heads = facts.heads, found.kv_heads = facts.kv_heads, found.head_dim = facts.head_dim;
  found.intermediate = facts.intermediate;
  found.tied = facts.tied;
  found.max_context = facts.context;
  found.context = context;
  found.weight_bytes = found.file_bytes;
  found.state_bytes = sequence_bytes(model.target, context, backend);
  if (model.mtp) found.state_bytes += sequence_bytes(*model.mtp, context, backend);
  inspect_tower(model, context, backend, found);
  found.memory_needed = found.weight_bytes + found.state_bytes + found.image_bytes;
  found.memory_available = machine.free_bytes();
  // Mapped weights and their packed copy may both be in memory for a while.
  const std::int64_t comfortable = found.memory_needed + found.weight_bytes;
  found.verdict = found.memory_available >= comfortable           ? "fits"
                  : found.memory_available >= found.memory_needed ? "tight"
                                                                  : "does not fit";
  found.head_state = head_state_name(model.mtp_head.state);
  found.head_sentence = model.mtp_head.sentence, found.head_file = model.mtp_head.file;
  found.drafter = drafter_name(DrafterKind::kAuto, model);
  for (const DraftNetwork& network : model.drafters) {
    if (std::string note = unused_part(network); !note.empty()) found.notes.push_back(std::move(note));
  }
  if (with_program) {
    found.program = to_text(model.target);
    if (model.mtp) found.program += "\nmtp head:\n" + to_text(*model.mtp);
    if (model.vision) {
      found.program += "\nvision tower:\n" + to_text(model.vision->tower) + "\nvision merger:\n" +
                       to_text(model.vision->merger);
    }
  }
  return found;
}

}  // namespace ft::cli
