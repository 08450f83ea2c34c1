// The files of a converted model besides its weights: config.json with MLX's quantisation map, the index, the
// model card, the tokenizer's files, foretoken.json (how it was made).
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "convert/plan.h"

namespace ft::convert {

/// All side files but config.json, which makes the folder a model and is written last.
Status write_side_files(const Source& source, const Recipe& recipe, const Plan& plan,
                        const std::string& directory);
Status write_config(const Source& source, const Recipe& recipe, const Plan& plan,
                    const std::string& directory);

/// Weight files that the checkpoint does not name, such as vision.safetensors: names, sorted.
std::vector<std::string> other_weight_files(const Source& source);

/// Writes a text through FILE.part and a rename.
Status write_whole(const std::string& path, const std::string& text);

}  // namespace ft::convert
