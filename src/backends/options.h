// The options of a backend. A backend declares its flags (BackendFlag) and reads their values from
// BackendSettings. The command line, `verify` and the benchmarks pass the settings on and name no flag.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

/// A flag that a backend takes. Several backends may have a flag of the same name.
struct BackendFlag {
  std::string_view name;         // "kv-bits"
  std::string_view value_name;   // "BITS", for --help
  std::string_view usual_value;  // a setting with this value has no effect
  std::string_view help;
  Status (*check)(const std::string& value) = nullptr;  // "expected 16 or 8, found '4'"
};

/// A flag and its value as text.
struct BackendSetting {
  BackendSetting(std::string flag_, std::string value_) : flag(std::move(flag_)), value(std::move(value_)) {}
  BackendSetting(std::string flag_, int value_) : BackendSetting(std::move(flag_), std::to_string(value_)) {}
  std::string flag, value;
  bool required = true;  // a backend without this flag refuses it; false: it uses its default
};

/// The settings of a backend, each flag once.
class BackendSettings {
 public:
  BackendSettings() = default;
  BackendSettings(std::initializer_list<BackendSetting> settings);
  void set(BackendSetting setting);
  void require(std::string_view flag);
  void remove(std::string_view flag);
  /// The same settings, none of them required.
  BackendSettings optional() const;
  /// The value, or `usual` if the flag is not set.
  std::string value(std::string_view flag, std::string_view usual) const;
  std::span<const BackendSetting> all() const { return settings_; }

 private:
  std::vector<BackendSetting> settings_;
};

struct BackendOptions {
  /// auto, cpu, cuda, metal, metal-twin (the kernels of metal as C++, for tests), ref; auto: the GPU where it
  /// runs (cuda, or metal on a Mac), else cpu.
  std::string name = "auto";
  int threads = 0;  // 0: one per core
  BackendSettings settings = {};
  PackedCacheOptions packed_cache = {};
  std::string kernel_folder = {};  // where a backend may keep compiled kernels; empty: none are kept
  PackProgress progress = {};      // of packing; may be empty
  /// auto: returns an error if the GPU cannot run this model. Null accepts any GPU.
  std::function<Status(const Backend&)> check_device = {};
  /// The program that --split divides; it outlives the call.
  const Program* target = nullptr;
  std::int64_t host_bytes = 0;  // free memory of the machine; 0: unknown
  /// auto: receives the reason, in a sentence, if a GPU of this machine is not used. May be empty.
  std::function<void(const std::string&)> notice = {};
};

/// A backend as the registry lists it.
struct BackendKind {
  std::string_view name;
  std::vector<BackendFlag> flags;
  /// The settings are checked: each is one of `flags` with a valid value, or not required.
  Result<std::unique_ptr<Backend>> (*make)(const BackendOptions& options) = nullptr;
};

}  // namespace ft
