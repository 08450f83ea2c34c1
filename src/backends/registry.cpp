#include "backends/registry.h"

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "backends/cpu/backend.h"
#include "backends/cuda/backend.h"
#include "backends/metal/backend.h"
#include "backends/ref/backend.h"
#include "backends/split/choice.h"
#include "format/out_of_memory.h"

namespace ft {
namespace {

/// In the order of names and of flags in --help.
std::span<const BackendKind> kinds() {
  static const std::vector<BackendKind> all = {cpu_backend(), cuda_backend(), metal_backend(),
                                               metal_twin_backend(), ref_backend()};
  return all;
}

/// metal-twin is for tests: messages do not suggest it.
bool is_suggested(const BackendKind& kind) { return kind.name != "metal-twin"; }

const BackendKind* find_kind(std::string_view name) {
  const auto found = std::ranges::find(kinds(), name, &BackendKind::name);
  return found == kinds().end() ? nullptr : &*found;
}

const BackendFlag* find_flag(const BackendKind& kind, std::string_view flag) {
  const auto found = std::ranges::find(kind.flags, flag, &BackendFlag::name);
  return found == kind.flags.end() ? nullptr : &*found;
}

/// True if the value is the usual one, so that a backend without the flag does the same.
bool is_usual(const BackendSetting& setting) {
  return std::ranges::any_of(kinds(), [&](const BackendKind& kind) {
    const BackendFlag* flag = find_flag(kind, setting.flag);
    return flag != nullptr && flag->usual_value == setting.value;
  });
}

Error foreign_flag(const BackendKind& kind, const std::string& flag) {
  std::vector<std::string_view> others;
  for (const BackendKind& other : kinds()) {
    if (is_suggested(other) && find_flag(other, flag) != nullptr) others.push_back(other.name);
  }
  return {Code::kInvalid,
          fmt::format("{} backend: it has no --{}; omit the flag{}{}", kind.name, flag,
                      others.empty() ? "" : ", or use --backend ", fmt::join(others, " or "))};
}

/// Refuses a bad value, and a required setting that the backend lacks.
Status check_settings(const BackendKind& kind, const BackendSettings& settings) {
  for (const BackendSetting& setting : settings.all()) {
    if (is_usual(setting)) continue;
    const BackendFlag* flag = find_flag(kind, setting.flag);
    if (flag == nullptr && setting.required) return foreign_flag(kind, setting.flag);
    if (flag == nullptr) continue;
    if (const Status good = flag->check(setting.value); !good.ok()) {
      return Error{Code::kInvalid,
                   fmt::format("{} backend: --{}: {}", kind.name, setting.flag, good.error().message)};
    }
  }
  return {};
}

Result<std::unique_ptr<Backend>> make(const BackendKind& kind, const BackendOptions& options) {
  FT_TRY(check_settings(kind, options.settings));
  return format::with_memory_guard("start", fmt::format("{} backend", kind.name),
                                   [&] { return kind.make(options); });
}

/// The cpu backend; it ignores settings of the GPU.
Result<std::unique_ptr<Backend>> fall_back(BackendOptions options) {
  options.settings = options.settings.optional();
  return make(*find_kind("cpu"), options);
}

/// True if the GPU's backend has every setting; if not, auto takes the cpu backend.
bool gpu_takes(BackendSettings settings) {
  for (const BackendSetting& setting : std::vector(settings.all().begin(), settings.all().end()))
    settings.set({setting.flag, setting.value});  // all of them required
  return check_settings(*find_kind(gpu_backend()), settings).ok();
}

}  // namespace

std::vector<BackendFlag> backend_flags() {
  std::vector<BackendFlag> flags;
  for (const BackendKind& kind : kinds()) {
    for (const BackendFlag& flag : kind.flags) {
      if (std::ranges::find(flags, flag.name, &BackendFlag::name) == flags.end()) flags.push_back(flag);
    }
  }
  for (const BackendFlag& flag : split::flags()) flags.push_back(flag);
  return flags;
}

Result<std::vector<std::string>> division_lines(const BackendOptions& options) {
  return split::division_lines(options, make_backend);
}

BackendSettings without_division(const BackendSettings& settings) { return split::undivided(settings); }

const char* gpu_backend() {
#ifdef __APPLE__
  return "metal";
#else
  return "cuda";
#endif
}

Result<std::unique_ptr<Backend>> choose_backend(const BackendOptions& options,
                                                Result<std::unique_ptr<Backend>> gpu) {
  Status good = gpu.ok() ? Status() : Status(gpu.error());
  if (good.ok() && options.check_device) good = options.check_device(**gpu);
  if (good.ok()) return gpu;
  if (good.error().code == Code::kInvalid) return good.error();  // the flags name a GPU by number
  if (good.error().code != Code::kNotFound && options.notice)
    options.notice("--backend auto falls back to the CPU: " + good.error().message);
  return fall_back(options);
}

Result<std::unique_ptr<Backend>> make_backend(const BackendOptions& options) {
  if (split::is_asked(options.settings)) return split::make(options, make_backend);
  if (options.name == "auto") {
    if (!gpu_takes(options.settings)) return fall_back(options);
    return choose_backend(options, make(*find_kind(gpu_backend()), options));
  }
  if (const BackendKind* kind = find_kind(options.name)) return make(*kind, options);
  std::vector<std::string_view> names;
  for (const BackendKind& kind : kinds()) {
    if (is_suggested(kind)) names.push_back(kind.name);
  }
  const std::string_view last = names.back();
  names.pop_back();
  return Error{Code::kInvalid, fmt::format("backend '{}' is unknown; choose auto, {} or {}", options.name,
                                           fmt::join(names, ", "), last)};
}

}  // namespace ft
