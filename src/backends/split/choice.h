// The flags that divide a model over backends, and the backend that they ask for. Owner: registry.cpp.
// Errors: values, devices and combinations that are not possible, each with the next step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/options.h"

namespace ft::split {

/// --split, --devices and --experts.
std::vector<BackendFlag> flags();
/// Whether the settings divide the model.
bool is_asked(const BackendSettings& settings);
/// `make_one` makes the backend of a part.
using MakeOne = std::function<Result<std::unique_ptr<Backend>>(const BackendOptions&)>;
Result<std::unique_ptr<Backend>> make(const BackendOptions& options, const MakeOne& make_one);

/// One line for each device: its share of options.target. Empty if the settings divide nothing.
Result<std::vector<std::string>> division_lines(BackendOptions options, const MakeOne& make_one);
BackendSettings undivided(BackendSettings settings);

/// "cuda:1=20": a backend, its device, and the layers that it gets.
struct DeviceName {
  std::string backend, device;
  int layers = 0;  // 0: not given
  std::string text() const { return device.empty() ? backend : backend + ":" + device; }
};
/// A list with commas. A number alone is a device of the GPU's backend.
Result<std::vector<DeviceName>> read_devices(const std::string& text, const std::string& gpu_backend);

}  // namespace ft::split
