// The backends that this build has and this machine can run. The names are those of `--backend`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "program/backend.h"

namespace ft {

/// Packed-weight cache (cpu, metal): where packed weights are kept between starts. A file is valid for one
/// `place` and one `source`.
struct PackedCacheOptions {
  std::string folder;  // made when needed; empty: no cache
  std::string name;    // the start of file names
  std::string place;   // of the model, so that two models of one name do not share files
  std::string source;  // fingerprint of the model's state
};
inline constexpr const char* kPackedFileSuffix = ".packed";

/// Reports a long task and its progress in bytes; the last call reports all of them. Runs on the engine
/// thread.
using PackProgress = std::function<void(const char* task, std::int64_t done, std::int64_t total)>;

struct BackendOptions {
  /// auto, cpu, cuda, metal, metal-twin (the kernels of metal as C++, for tests), ref; auto: the GPU where it
  /// runs (cuda, or metal on a Mac), else cpu.
  std::string name = "auto";
  int threads = 0;           // 0: one per core
  std::string isa = "auto";  // cpu: auto, amx, avx512bf16, avx512vnni, avx512, avxvnni, avx2, ..., portable
  int activations = 0;       // cpu: bits of quantised activations, 8 or 16; 0: the default
  int kv_bits = 16;          // cpu, cuda: of cached keys and values, 8 or 16; ref keeps float32
  int device = 0;            // cuda: number of the GPU
  PackedCacheOptions packed_cache = {};
  std::string pipeline_folder = {};  // metal: where compiled pipelines are kept; empty: nowhere
  PackProgress progress = {};        // of packing (cpu); may be empty
  /// auto: returns an error if the GPU cannot run this model. Null accepts any GPU.
  std::function<Status(const Backend&)> check_device = {};
  /// auto: told in a sentence why a GPU of this machine is not taken. May be empty.
  std::function<void(const std::string&)> notice = {};
};

/// What `auto` takes where `gpu` is what making the cuda backend gave.
Result<std::unique_ptr<Backend>> choose_backend(const BackendOptions& options,
                                                Result<std::unique_ptr<Backend>> gpu);
/// kUnsupported or kNotFound if the machine cannot run it, kInvalid with the list of names if there is no
/// such backend.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);
std::vector<std::string> backend_names();
/// The backend for a GPU of this system: "metal" on a Mac, else "cuda".
const char* gpu_backend();

}  // namespace ft
