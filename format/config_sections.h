// The two sections of a configuration that have histories of their own: rotary parameters (three spellings)
// and the contract of the MTP head (four places). Called by config.cpp only. Threads: any. Errors: as in
// config.h.
#pragma once

#include "base/result.h"
#include "format/config.h"

namespace ft::format {

class KeyReader;

/// rope_parameters; else rope_scaling with rope_theta beside it. "type" is an alias of "rope_type".
/// `config` gives head_dim and max_positions, takes rope.
Status read_rope(KeyReader& text, ModelConfig& config);

/// mtp_* keys of the text config, mtplx_* keys of config.json, mtplx_runtime.json.
Status read_mtp_contract(KeyReader& top, KeyReader& text, KeyReader& runtime, MtpContract& mtp);

}  // namespace ft::format
