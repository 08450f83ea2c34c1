// The backends of this build that this machine can run, by the names of `--backend`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/options.h"
#include "base/result.h"
#include "program/backend.h"

namespace ft {

/// The backend that `auto` chooses; `gpu`: the GPU's backend, or the error of making it.
Result<std::unique_ptr<Backend>> choose_backend(const BackendOptions& options,
                                                Result<std::unique_ptr<Backend>> gpu);
/// kUnsupported or kNotFound if the machine cannot run it, kInvalid with the list of names if there is no
/// such backend, and for a setting that the backend refuses.
Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options);
/// The share of options.target on each device with these settings, one line each; empty: one device has all.
Result<std::vector<std::string>> division_lines(const BackendOptions& options);
/// The settings without those that divide a model.
BackendSettings without_division(const BackendSettings& settings);
/// The flags of all backends, each name once.
std::vector<BackendFlag> backend_flags();
/// The backend for a GPU of this system: "metal" on a Mac, else "cuda".
const char* gpu_backend();

}  // namespace ft
