// The common part of `quantize` and `convert`: the run of a plan with its progress line, and the report.
#pragma once

#include <string>

#include "cli/args/flag.h"
#include "cli/terminal/reports.h"
#include "cli/terminal/terminal.h"
#include "convert/conversion.h"

namespace ft::cli {

struct ConversionFlags {
  std::string from, out;
  int threads = 0;
  bool plan_only = false, force = false;
};

/// The source, which `from_help` explains, and the folder to write.
void add_folder_flags(FlagSet& flags, ConversionFlags& options, const char* value_name,
                      const char* from_help);
void add_work_flags(FlagSet& flags, ConversionFlags& options);
/// kInvalid unless both the source and the folder to write are given.
Status check_folders(const ConversionFlags& flags, const std::string& command);

/// A model folder or GGUF file, by path or by a name of `foretoken models`.
Result<std::string> find_source(const std::string& named);

/// Runs the plan, or with plan_only only describes it.
Result<ConversionReport> run_conversion(const convert::Source& source, const convert::Recipe& recipe,
                                        const ConversionFlags& flags, Terminal& terminal);

/// Reads the written folder back and adds to the report: cosine and error of every matrix, then perplexity
/// and acceptance before and after on `text_file` (empty: a built-in text). kCorrupt if a tensor that must
/// equal the source does not.
Status verify_conversion(const convert::Source& source, const convert::Recipe& recipe,
                         const ConversionFlags& flags, const std::string& text_file,
                         ConversionReport& report);

/// Prints the report, as JSON if asked.
void show_conversion(const ConversionReport& report, bool json, Terminal& terminal);

}  // namespace ft::cli
