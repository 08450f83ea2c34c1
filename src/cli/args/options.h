// The options of the command line: one plain struct per concern. Each value is in range (cli/args/flag.h
// checks it); whether it fits the model is checked later.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/options.h"
#include "sched/request_builder.h"

namespace ft::cli {

struct OutputOptions {
  bool json = false;   // one object on stdout, everything else on stderr
  bool quiet = false;  // only errors on stderr
};

struct ModelOptions {
  std::string directory;  // empty: the shipped model, see cli/commands/model_path.h
  std::string backend = "auto";
  int draft_vocab_size = -1;            // LoadOptions::draft_vocab_size
  int draft_bits = -1;                  // LoadOptions::draft_bits
  int gguf_scale_bits = 32;             // LoadOptions::gguf_scale_bits
  BackendSettings backend_settings;     // of the flags that backends declare
  int threads = 0;                      // 0: one per core
  std::string packed_cache = "off";     // off, auto or a folder: cli/commands/packed_weights_folder.h
  std::string calibration = "measure";  // auto, measure or a folder: cli/commands/calibration_place.h
  std::int64_t context = 0;             // tokens; 0: the model's maximum, or as memory allows
  std::vector<DraftFolder> drafters;    // LoadOptions::drafters
  std::int64_t max_pixels = 0;          // of a resized image; 0: the default
};

struct PromptOptions {
  std::optional<std::string> text, file, messages;  // one of these or ids; none: standard input
  std::vector<std::int32_t> ids;
  bool has_ids = false;
  std::string tools;  // file with a JSON list; empty: none
  std::string system;
  std::vector<std::string> images;  // files, shown before the text
  bool raw = false;                 // no template
  std::optional<bool> think;
};

/// Structured output.
struct ConstraintOptions {
  std::string json_schema, lark;     // files; empty: none
  std::optional<std::string> regex;  // the expression
  bool json_object = false;
};

/// Options of speculation that RequestOptions (sched/request_builder.h) lacks.
struct SpeculationOptions {
  std::string predict_file;
  bool explain_depth = false;
};

}  // namespace ft::cli
