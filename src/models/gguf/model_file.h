// A GGUF file as if it were the folder of its Hugging Face original: configuration, tensors under the
// original's names, tokenizer and template. Nothing is written: matrices stay in the mapped file, and their
// rows are made when a backend packs them; vectors are decoded at once. Owner: the checkpoint keeps the files
// mapped. Cost: reads the header and the vectors. Errors: as open_gguf and find_architecture, and kCorrupt or
// kUnsupported for a tensor that the model does not have or cannot have in this shape.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "format/checkpoint.h"
#include "format/config_files.h"
#include "format/gguf/container.h"

namespace ft::gguf {

struct ModelFile {
  format::ConfigFiles config;
  format::Checkpoint checkpoint;  // metadata_format "gguf"
  std::string types;              // "GGUF, mostly Q4_K"
};

/// `float32_scales`: keep scales and biases as float32 if float16 would round them.
Result<ModelFile> open_model(const std::string& path, bool float32_scales = true);

/// The tokenizer and the template alone, from the header, by the names of the files that the original has:
/// tokenizer.json.
Result<std::map<std::string, std::string>> read_texts(const std::string& path);

}  // namespace ft::gguf
