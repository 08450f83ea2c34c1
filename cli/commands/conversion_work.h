// What `quantize` and `convert` share: the run of a plan with its progress line, and the report.
#pragma once

#include <string>

#include "cli/terminal/reports.h"
#include "cli/terminal/terminal.h"
#include "convert/conversion.h"

namespace ft::cli {

struct ConversionFlags {
  std::string from, out;
  int threads = 0;
  bool plan_only = false, force = false;
};

/// Runs the plan, or with plan_only only describes it.
Result<ConversionReport> run_conversion(const convert::Source& source, const convert::Recipe& recipe,
                                        const ConversionFlags& flags, Terminal& terminal);

/// Prints the report, as JSON if asked.
void show_conversion(const ConversionReport& report, bool json, Terminal& terminal);

}  // namespace ft::cli
