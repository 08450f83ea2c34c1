// `bench decode --threads 1,2,4`: the same figures with several numbers of threads, a row each, as a table,
// as a page that needs nothing else, and as JSON.
#pragma once

#include <span>
#include <string>

#include "lab/bench_decode_report.h"

namespace ft {

std::string scaling_text(std::span<const DecodeReport> reports);
std::string scaling_page(std::span<const DecodeReport> reports);
std::string scaling_json(std::span<const DecodeReport> reports);

}  // namespace ft
