// Which backends this build has and this machine can run. The names are those of `--backend`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/backend.h"

namespace ft {

/// Where packed weights are kept from one start to the next (cpu). A file counts for one `place` and
/// `source`.
struct PreparedOptions {
  std::string folder;  // made when needed; empty: nothing is kept
  std::string name;    // what file names begin with
  std::string place;   // of the model: two models of one name do not share files
  std::string source;  // fingerprint of the state that the model is in
};
inline constexpr const char* kPreparedEnding = ".packed";

/// What takes long, and how many bytes of it are done; the last call says all of them. From the engine
/// thread.
using PackProgress = std::function<void(const char* deed, std::int64_t done, std::int64_t total)>;

struct BackendOptions {
  std::string name = "auto";  // auto, cpu, cuda, ref; auto: cuda where it runs, else cpu
  int threads = 0;            // 0: one per core
  std::string isa = "auto";   // cpu: auto, avx512bf16, avx512vnni, avx512, avxvnni, avx2, ..., portable
  int activations = 0;        // cpu: bits of quantised activations, 8 or 16; 0: the default
  int kv_bits = 16;           // cpu, cuda: of cached keys and values, 8 or 16; ref keeps float32
  PreparedOptions prepared = {};
  PackProgress progress = {};  // of packing (cpu); may be empty
};

/// Error kUnsupported if the machine cannot run it, kInvalid with the list of names if there is no such
/// backend.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);
std::vector<std::string> backend_names();

}  // namespace ft
