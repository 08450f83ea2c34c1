// Reports as JSON, one object each, in the shapes that `--json` promises. Invalid UTF-8 becomes U+FFFD;
// infinite or missing numbers become null.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/commands/inspection.h"
#include "cli/terminal/reports.h"
#include "lab/machine.h"
#include "verify/matrix.h"

namespace ft::cli {

/// {"error": {"code": "not_found", "message": "..."}}
std::string error_json(const Error& error);
std::string run_json(const RunReport& report);
std::string bench_json(const BenchReport& report);
std::string score_json(const ScoreReport& report);
std::string tokenize_json(const std::vector<std::int32_t>& ids, const std::vector<std::string>& pieces,
                          const std::string& text);
std::string inspect_json(const Inspection& inspection);
/// The memory of the GPU that doctor found.
struct GpuMemory {
  std::int64_t free_bytes = 0;
  double copy_gb_per_s = 0;  // 0: not measured
};
std::string doctor_json(const Machine& machine, const std::vector<Finding>& findings,
                        const std::string& backend, const std::optional<GpuMemory>& gpu);
std::string verify_json(const MatrixReport& report, const std::string& model, const std::string& backend);
std::string synth_json(const std::string& directory, std::int64_t parameters, std::int64_t bytes,
                       double seconds);
std::string conversion_json(const ConversionReport& report);

std::string_view code_name(Code code);

}  // namespace ft::cli
