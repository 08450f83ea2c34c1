// The label of an instruction and the bytes it must read, the same in profiles and in `bench kernels`.
#pragma once

#include <string>

#include "program/backend.h"
#include "program/program.h"

namespace ft {

/// "linear 1024 -> 6144+2048+16+16", "logits 1024 -> 248320", "delta_rule 16x128x128", "norm".
std::string instruction_label(const Instruction& instruction);
/// Minimum bytes that one step reads and writes, as stored: weights and recurrent state (float32). Excludes
/// keys and values (cache_bytes).
std::int64_t instruction_bytes(const Instruction& instruction);
/// Bytes of keys and values that a row reads at `context` positions in the backend's format; 0 without
/// attention.
std::int64_t cache_bytes(const Instruction& instruction, std::int64_t context, const Backend& backend);
/// Bytes that decoding one token must move at `context` positions; bandwidth divided by it limits tokens/s.
std::int64_t bytes_per_token(const Program& program, std::int64_t context, const Backend& backend);
/// Bytes of keys, values and recurrent state of one sequence of `context` tokens.
std::int64_t sequence_bytes(const Program& program, std::int64_t context, const Backend& backend);

}  // namespace ft
