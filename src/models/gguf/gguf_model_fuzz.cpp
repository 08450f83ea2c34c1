// Any bytes as a GGUF file of a known architecture: configuration, names and tokenizer load or are refused.
#include <nlohmann/json.hpp>
#include <span>

#include "base/json.h"
#include "format/config_files.h"
#include "format/gguf/container.h"
#include "format/gguf/tokenizer.h"
#include "models/family.h"
#include "models/gguf/architecture.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = ft::format::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz");
  if (!parsed.ok()) return 0;
  (void)ft::format::tokenizer_files(*parsed, "fuzz");
  const auto architecture = ft::gguf::find_architecture(*parsed, "fuzz");
  if (!architecture.ok()) return 0;
  for (const ft::format::GgufTensor& tensor : parsed->tensors) {
    if (const auto place = (*architecture)->place(tensor)) (*architecture)->shape(*place, tensor.shape);
  }
  const auto files =
      ft::format::ConfigFiles::parse(ft::write_json((*architecture)->config()), "", "", "fuzz");
  if (files.ok()) (void)ft::read_config(*files);
  return 0;
}
