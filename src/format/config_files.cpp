#include "format/config_files.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/mapped_file.h"
#include "base/text_file.h"
#include "format/out_of_memory.h"

namespace ft::format {
namespace {

constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kRuntime = "mtplx_runtime.json";
constexpr const char* kPictures = "preprocessor_config.json";
constexpr const char* kProcessor = "processor_config.json";

Result<JsonDocument> object_or_empty(const std::string& text, const std::string& path) {
  FT_ASSIGN(JsonDocument root, parse_json(text.empty() ? "{}" : text, path, DuplicateKeys::kLastWins));
  if (root->is_object()) return root;
  return Error{Code::kCorrupt, path + ": expected a JSON object, found " + std::string(root->type_name()) +
                                   "; download the file again"};
}

/// A GGUF file has all of them in its metadata.
std::string sibling(const std::string& path, const char* name) {
  if (path.ends_with(".gguf")) return path;
  return (std::filesystem::path(path).parent_path() / name).string();
}

Result<ConfigFiles> parse_texts(const std::string& config, const std::string& generation,
                                const std::string& runtime, const std::string& path,
                                const std::string& pictures) {
  ConfigFiles files;
  files.path = path;
  FT_ASSIGN(files.config, object_or_empty(config, path));
  FT_ASSIGN(files.generation, object_or_empty(generation, files.generation_path()));
  FT_ASSIGN(files.runtime, object_or_empty(runtime, files.runtime_path()));
  FT_ASSIGN(files.pictures, object_or_empty(pictures, files.pictures_path()));
  if (const auto inner = files.pictures->find("image_processor");
      inner != files.pictures->end() && inner->is_object()) {
    *files.pictures = nlohmann::json(*inner);
  }
  return files;
}

Result<std::string> read_text(const std::string& path, bool required) {
  std::error_code ignored;  // open() reports what cannot be examined
  if (!required && !std::filesystem::exists(std::filesystem::symlink_status(path, ignored)))
    return std::string();
  FT_ASSIGN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kMaxConfigBytes) {
    return Error{Code::kCorrupt, path + ": expected at most " + std::to_string(kMaxConfigBytes) +
                                     " bytes, found " + std::to_string(file.bytes().size()) +
                                     "; download the file again"};
  }
  if (file.bytes().empty()) {
    return Error{Code::kCorrupt,
                 path + ": expected a JSON object, found an empty file; download the file again"};
  }
  return std::string(
      without_byte_order_mark({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}));
}

}  // namespace

Result<ConfigFiles> ConfigFiles::parse(const std::string& config, const std::string& generation,
                                       const std::string& runtime, const std::string& path,
                                       const std::string& pictures) {
  return with_memory_guard("read it", path,
                           [&] { return parse_texts(config, generation, runtime, path, pictures); });
}

Result<ConfigFiles> ConfigFiles::read(const std::string& directory) {
  return with_memory_guard("read its configuration", directory, [&]() -> Result<ConfigFiles> {
    const std::filesystem::path folder(directory);
    const std::string path = (folder / "config.json").string();
    FT_ASSIGN(const std::string config, read_text(path, true));
    FT_ASSIGN(const std::string generation, read_text((folder / kGeneration).string(), false));
    FT_ASSIGN(const std::string runtime, read_text((folder / kRuntime).string(), false));
    FT_ASSIGN(std::string pictures, read_text((folder / kPictures).string(), false));
    if (pictures.empty()) {
      FT_ASSIGN(pictures, read_text((folder / kProcessor).string(), false));
    }
    return parse_texts(config, generation, runtime, path, pictures);
  });
}

std::string ConfigFiles::generation_path() const { return sibling(path, kGeneration); }
std::string ConfigFiles::runtime_path() const { return sibling(path, kRuntime); }
std::string ConfigFiles::pictures_path() const { return sibling(path, kPictures); }

}  // namespace ft::format
