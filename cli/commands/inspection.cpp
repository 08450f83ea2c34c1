#include "cli/commands/inspection.h"

#include <algorithm>

#include "drafters/registry.h"

namespace ft::cli {

Inspection inspect(const Model& model, const Machine& machine, std::int64_t context, int kv_bits,
                   bool with_program) {
  const format::ModelConfig& config = model.config;
  Inspection found;
  found.directory = model.directory, found.name = model.name;
  found.family = model.family, found.quantisation = model.quantisation;
  found.parameters = model.parameters;
  found.file_bytes = static_cast<std::int64_t>(model.checkpoint->total_bytes());
  found.step_bytes = model.target.bytes_per_step();
  found.layers = config.num_layers;
  found.full_attention_layers = static_cast<int>(
      std::count(config.layer_types.begin(), config.layer_types.end(), format::LayerType::kFullAttention));
  found.hidden = config.hidden_size, found.vocabulary = config.vocab_size;
  found.draft_bits = model.draft_bits;
  found.draft_vocabulary = model.draft_vocabulary, found.drafted_among = draft_vocabulary_text(model);
  found.heads = config.num_heads, found.kv_heads = config.num_kv_heads, found.head_dim = config.head_dim;
  found.intermediate = config.intermediate_size;
  found.tied = model.tied;
  found.max_context = config.max_positions;
  found.context = context;
  found.weight_bytes = found.file_bytes;
  found.state_bytes = state_bytes(model.target, context, kv_bits);
  if (model.mtp) found.state_bytes += state_bytes(*model.mtp, context, kv_bits);
  found.memory_needed = found.weight_bytes + found.state_bytes;
  found.memory_available = machine.free_bytes();
  // Mapped weights and their packed copy may both be in memory for a while.
  const std::int64_t comfortable = found.memory_needed + found.weight_bytes;
  found.verdict = found.memory_available >= comfortable           ? "fits"
                  : found.memory_available >= found.memory_needed ? "tight"
                                                                  : "does not fit";
  found.head_state = head_state_name(model.head.state);
  found.head_sentence = model.head.sentence, found.head_file = model.head.file;
  found.drafter = drafter_name(DrafterKind::kAuto, model);
  if (with_program) {
    found.program = to_text(model.target);
    if (model.mtp) found.program += "\nmtp head:\n" + to_text(*model.mtp);
  }
  return found;
}

}  // namespace ft::cli
