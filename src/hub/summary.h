// A description of a model folder, only from its configuration and the headers of its weight files: nothing
// is mapped, no tensor is read, and a file without blocks on this disk (it is in a cloud) is not opened. A
// half-downloaded or unreadable folder gives a summary with that problem, never an error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ft::hub {

struct ModelSummary {
  std::string directory;                    // or the GGUF file
  std::string config, generation, runtime;  // the texts of the JSON files; empty: absent
  std::string model_type, architecture;
  std::string quantisation;  // "4-bit affine", "bf16", "gptq"; empty: unknown
  double bits = 0;           // of a weight, from the configuration; 0: unknown
  bool foreign = false;      // quantised by a method that this program does not load as it is
  bool gguf = false;
  bool has_tokenizer = false;
  std::int64_t bytes = 0;                  // of the weight files
  std::int64_t used_s = 0, changed_s = 0;  // last read and last change of the weights, seconds since 1970
  bool head_in_config = false;             // the configuration names an MTP head
  std::string head_file;                   // the file with its tensors; empty: none
  std::string problem;                     // why it is not whole; empty: it is
  bool cloud = false;                      // some files are not on this disk
  /// Changes when the configuration or the weights do. Computed from the configuration, the headers, and the
  /// hash by which a cache names a file or, without one, the file's time.
  std::string identity;

  bool complete() const { return problem.empty(); }
};

ModelSummary summarise_folder(const std::string& directory);
/// A GGUF file, the first of its parts if it has several; only sizes and the first bytes are looked at.
ModelSummary summarise_gguf(const std::string& path);
/// The GGUF files of a folder without safetensors, sorted; of a model in several parts, the first one. No
/// vision towers (mmproj*) and no heads (mtp-*).
std::vector<std::string> gguf_models(const std::string& folder);
/// A model folder or a GGUF file.
ModelSummary summarise_place(const std::string& path);

/// Reads the header of a safetensors file: tensor names, and the bytes that the whole file must have. False
/// if it is not such a header. For hostile bytes.
struct HeaderFacts {
  std::uint64_t needed_bytes = 0;
  bool has_head = false;  // a tensor of an MTP head
  std::string type;       // of most tensors: "BF16"
};
bool parse_header(std::string_view json, std::uint64_t header_bytes, HeaderFacts& facts);

}  // namespace ft::hub
