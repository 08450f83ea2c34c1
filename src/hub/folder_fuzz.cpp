// Fuzzes the files of a model folder that the scan reads: config.json and the weight index. Whatever they
// hold, the folder has a summary, with a problem unless its weights exist.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "hub/summary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::string folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "foretoken-folder-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    return name;
  }();
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = text.find('\0');
  std::ofstream(folder + "/config.json", std::ios::binary) << text.substr(0, cut);
  std::ofstream(folder + "/model.safetensors.index.json", std::ios::binary)
      << (cut == std::string::npos ? "" : text.substr(cut + 1));
  if (ft::hub::summarise_folder(folder).complete()) std::abort();  // there are no weights
  return 0;
}
