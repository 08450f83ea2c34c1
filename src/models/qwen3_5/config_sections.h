// The three sections of a configuration with several spellings: rotary parameters (three spellings), the
// contract of the MTP head (four places), and the vision tower with its pictures (two files). Only config.cpp
// calls it. Errors: as in config.h.
#pragma once

#include "base/result.h"
#include "models/qwen3_5/config.h"

namespace ft::format {
class KeyReader;
}

namespace ft::qwen3_5 {

/// Reads rope_parameters, otherwise rope_scaling with a separate rope_theta. "type" is an alias of
/// "rope_type". `config` provides head_dim and max_positions and receives rope.
Status read_rope(format::KeyReader& text, Config& config);

/// Reads mtp_* keys of the text config, mtplx_* keys of config.json, and mtplx_runtime.json.
Status read_mtp_contract(format::KeyReader& top, format::KeyReader& text, format::KeyReader& runtime,
                         MtpContract& mtp);

/// Reads vision_config, image_token_id and the sizes of pictures; nothing where vision_config is absent.
Status read_vision(format::KeyReader& top, format::KeyReader& pictures, Config& config);

}  // namespace ft::qwen3_5
