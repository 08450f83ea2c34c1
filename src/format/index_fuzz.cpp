// Any text as model.safetensors.index.json, next to one small shard, is refused or opens.
#include <cstdint>
#include <string>

#include "format/checkpoint.h"
#include "format/model_fixture.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::format::TemporaryFolder folder;
  static const std::string shard = folder.write("model-00001-of-00001.safetensors",
                                                ft::format::safetensors_file({{"a", "F32", "[1]", "abcd"}}));
  folder.write("model.safetensors.index.json", std::string(reinterpret_cast<const char*>(data), size));
  const auto opened = ft::format::Checkpoint::open(folder.path());
  return opened.ok() && opened->tensors().empty() ? -1 : 0;
}
