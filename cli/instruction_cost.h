// What an instruction is called in tables and what it must read: the same words and bytes in profiles and in
// `bench kernels`. Thread: any. Cost: none. No errors.
#pragma once

#include <string>

#include "program/program.h"

namespace ft::cli {

/// "linear 1024 -> 6144+2048+16+16", "logits 1024 -> 248320", "delta_rule 16x128x128", "norm".
std::string instruction_label(const Instruction& instruction);
/// Bytes that one step reads and writes at least, as stored: weights, and a recurrent state (float32, read
/// and written). Keys and values come on top (cache_bytes).
std::int64_t instruction_bytes(const Instruction& instruction);
/// Bytes of keys and values that a row reads at `context` positions, `kv_bits` an element; 0 for others.
std::int64_t cache_bytes(const Instruction& instruction, std::int64_t context, int kv_bits);
/// What decoding one token must move at `context` positions: the limit of tokens/s is the bandwidth over it.
std::int64_t bytes_per_token(const Program& program, std::int64_t context, int kv_bits);

}  // namespace ft::cli
