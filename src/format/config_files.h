// ConfigFiles: the four JSON files of a model folder, parsed but not interpreted. A family reads its own keys
// from them with KeyReader (models/family.h). Errors name the file: kNotFound without config.json, kCorrupt
// for a file that is not a JSON object, kExhausted when memory runs out.
#pragma once

#include <string>

#include "base/result.h"
#include "format/json_text.h"

namespace ft::format {

struct ConfigFiles {
  std::string path;         // of config.json, for messages
  JsonDocument config;      // the documents are objects, empty if the file is absent
  JsonDocument generation;  // generation_config.json
  JsonDocument runtime;     // mtplx_runtime.json
  JsonDocument pictures;    // preprocessor_config.json, or processor_config.json's image_processor

  static Result<ConfigFiles> read(const std::string& directory);
  /// The same from texts. An empty text means that the file is absent.
  static Result<ConfigFiles> parse(const std::string& config, const std::string& generation,
                                   const std::string& runtime, const std::string& path,
                                   const std::string& pictures = "");

  std::string generation_path() const;
  std::string runtime_path() const;
  std::string pictures_path() const;
};

}  // namespace ft::format
