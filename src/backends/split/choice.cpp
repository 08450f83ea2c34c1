#include "backends/split/choice.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

#include "backends/registry.h"
#include "backends/split/tensor.h"
#include "base/thread_pool.h"

namespace ft::split {
namespace {

constexpr const char* kSplit = "split";
constexpr const char* kDevices = "devices";
constexpr const char* kExperts = "experts";
constexpr const char* kLayers = "layers";
constexpr const char* kTensor = "tensor";
constexpr const char* kAuto = "auto";
constexpr int kMaxLayers = 4096;
constexpr int kMaxRanks = 8;

std::optional<int> count_in(std::string_view text) {
  int count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool good = failure == std::errc() && end == text.data() + text.size();
  return good && count >= 1 && count <= kMaxLayers ? std::optional(count) : std::nullopt;
}

/// Layers whose experts are on the processors: 0: none, -1: all.
Result<int> expert_layers(const std::string& value) {
  if (value == "device") return 0;
  if (value == "cpu") return -1;
  if (value.starts_with("cpu=")) {
    if (const std::optional<int> count = count_in(std::string_view(value).substr(4))) return *count;
  }
  return Error{Code::kInvalid,
               fmt::format("expected device, cpu or cpu=LAYERS (1 to {}), found '{}'", kMaxLayers, value)};
}

Status check_split(const std::string& value) {
  if (value == "none" || value == kLayers || value == kTensor || value == kAuto) return {};
  return Error{Code::kInvalid, fmt::format("expected none, layers, tensor or auto, found '{}'", value)};
}

Status check_devices(const std::string& value) {
  FT_TRY(read_devices(value, gpu_backend()));
  return {};
}

Status check_experts(const std::string& value) {
  FT_TRY(expert_layers(value));
  return {};
}

Error wrong_flag(const char* flag, const Error& error) {
  return {error.code, fmt::format("--{}: {}", flag, error.message)};
}

BackendOptions options_of_part(BackendOptions options) {
  options.settings = undivided(std::move(options.settings));
  options.check_device = {};  // the whole model need not fit one part
  return options;
}

Status check_whole(const BackendOptions& options, const Result<std::unique_ptr<Backend>>& made) {
  if (!made.ok()) return made.error();
  return options.check_device ? options.check_device(**made) : Status();
}

/// The devices of --split `how`, each with its backend.
struct DeviceParts {
  std::vector<DeviceName> names;
  std::vector<Part> parts;
};
Result<DeviceParts> make_parts(const BackendOptions& options, const std::string& how,
                               const MakeOne& make_one) {
  if (options.target == nullptr) {
    return Error{Code::kUnsupported,
                 fmt::format("--split {}: this command loads no model to divide; omit the flag", how)};
  }
  DeviceParts made;
  FT_ASSIGN(made.names, read_devices(options.settings.value(kDevices, ""), gpu_backend()));
  if (made.names.size() < 2) {
    return Error{Code::kInvalid,
                 fmt::format("--split {0} needs two devices or more; example: --devices {1}:0,{1}:1{2}", how,
                             gpu_backend(),
                             how == kLayers ? fmt::format(" or --devices {}:0,cpu", gpu_backend()) : "")};
  }
  for (const DeviceName& name : made.names) {
    BackendOptions own = options_of_part(options);
    own.name = name.backend, own.settings = own.settings.optional();
    if (!name.device.empty()) own.settings.set({"device", name.device});
    if (how == kTensor) {
      own.packed_cache = {};  // ranks would write one file
      if (own.threads == 0) own.threads = std::max(1, usual_workers() / static_cast<int>(made.names.size()));
    }
    Result<std::unique_ptr<Backend>> backend = make_one(own);
    if (!backend.ok()) {
      return Error{backend.error().code,
                   fmt::format("--devices {}: {}", name.text(), backend.error().message)};
    }
    made.parts.push_back({name.text(), std::move(*backend)});
  }
  return made;
}

Result<std::unique_ptr<Backend>> make_layers(const BackendOptions& options, const MakeOne& make_one) {
  FT_ASSIGN(DeviceParts made, make_parts(options, kLayers, make_one));
  std::vector<int> counts;
  for (const DeviceName& name : made.names) {
    if (name.layers > 0) counts.push_back(name.layers);
  }
  if (!counts.empty() && counts.size() != made.parts.size()) {
    return Error{Code::kInvalid,
                 fmt::format("--devices gives {} of {} devices a number of layers; give it to all or to none",
                             counts.size(), made.parts.size())};
  }
  return by_layers(std::move(made.parts), std::move(counts), *options.target, options.host_bytes);
}

Result<std::unique_ptr<Backend>> make_ranks(const BackendOptions& options, const MakeOne& make_one) {
  FT_ASSIGN(const std::vector<DeviceName> names,
            read_devices(options.settings.value(kDevices, ""), gpu_backend()));
  if (names.size() > kMaxRanks) {
    return Error{Code::kInvalid,
                 fmt::format("--split tensor takes at most {} devices, and --devices names {}", kMaxRanks,
                             names.size())};
  }
  if (std::ranges::any_of(names, [](const DeviceName& name) { return name.layers > 0; })) {
    return Error{Code::kInvalid,
                 "--split tensor gives each device a part of every layer; omit =LAYERS in --devices"};
  }
  FT_ASSIGN(DeviceParts made, make_parts(options, kTensor, make_one));
  return by_ranks(std::move(made.parts), *options.target);
}

/// Experts that are not packed into a file stay in memory.
Status check_room(const BackendOptions& options, int layers) {
  if (options.target == nullptr || options.host_bytes <= 0 || !options.packed_cache.folder.empty()) return {};
  const std::int64_t bytes = bytes_on(*options.target, place_experts(*options.target, layers), 1);
  if (bytes <= options.host_bytes) return {};
  return Error{
      Code::kExhausted,
      fmt::format("--experts: the routed experts take {:.1f} GB, and this machine has {:.1f} GB free; "
                  "use --experts cpu=LAYERS, or keep packed weights in a file (--packed-cache auto)",
                  static_cast<double>(bytes) * 1e-9, static_cast<double>(options.host_bytes) * 1e-9)};
}

Result<std::unique_ptr<Backend>> make_experts(const BackendOptions& options, int layers,
                                              const MakeOne& make_one) {
  FT_TRY(check_room(options, layers));
  BackendOptions own = options_of_part(options);
  FT_ASSIGN(std::unique_ptr<Backend> main, make_one(own));
  if (main->name() == "cpu") {
    if (options.notice)
      options.notice("--experts cpu changes nothing: the whole model is on the cpu backend");
    return main;
  }
  std::string name(main->name());
  own.name = "cpu", own.settings = own.settings.optional();
  FT_ASSIGN(std::unique_ptr<Backend> experts, make_one(own));
  return with_experts({std::move(name), std::move(main)}, {"cpu", std::move(experts)}, layers);
}

/// A division that --split auto tries.
struct Arrangement {
  std::string what;
  BackendOptions options;
};

/// In the order in which they are tried: GPUs that have all layers come before the processors, and a
/// mixture's experts leave the GPU before whole layers do.
std::vector<Arrangement> arrangements(const BackendOptions& options, const std::vector<DeviceName>& names,
                                      const std::string& listed, const std::string& first) {
  const bool mixture = std::ranges::any_of(
      options.target->instructions(),
      [](const Instruction& instruction) { return std::holds_alternative<MoeMlp>(instruction); });
  const std::string devices = names.size() > 1 ? listed : first + ",cpu";
  const bool has_host =
      names.size() < 2 || std::ranges::find(names, "cpu", &DeviceName::backend) != names.end();
  Arrangement layers{fmt::format("layers over {}", devices), options};
  layers.options.settings.set({kSplit, kLayers}), layers.options.settings.set({kDevices, devices});
  Arrangement experts{fmt::format("routed experts on the processors, the rest on {}", first), options};
  experts.options.settings.set({kExperts, "cpu"});
  if (!mixture) return {layers};
  return has_host ? std::vector{experts, layers} : std::vector{layers, experts};
}

Status check_fit(const BackendOptions& options, const Backend& backend) {
  if (options.check_device) return options.check_device(backend);
  const std::int64_t own = backend.limits({}).memory_bytes, free = own > 0 ? own : options.host_bytes;
  const std::int64_t bytes = backend.memory_for(*options.target, {}).weights;
  if (free <= 0 || bytes <= free) return {};
  return Error{Code::kExhausted, fmt::format("the weights take {:.1f} GB, and {} has {:.1f} GB free",
                                             static_cast<double>(bytes) * 1e-9, backend.name(),
                                             static_cast<double>(free) * 1e-9)};
}

Result<std::unique_ptr<Backend>> make_automatic(const BackendOptions& options, const MakeOne& make_one) {
  FT_ASSIGN(const std::vector<DeviceName> names,
            read_devices(options.settings.value(kDevices, ""), gpu_backend()));
  if (options.target == nullptr) {
    return Error{Code::kUnsupported, "--split auto: this command loads no model to divide; omit the flag"};
  }
  BackendOptions first = options_of_part(options);
  if (!names.empty()) {
    first.name = names[0].backend, first.settings = first.settings.optional();
    if (!names[0].device.empty()) first.settings.set({"device", names[0].device});
  }
  FT_ASSIGN(std::unique_ptr<Backend> one, make_one(first));
  const std::string name = names.empty() ? std::string(one->name()) : names[0].text();
  const auto tell = [&](const std::string& what) {
    if (options.notice) options.notice("--split auto: " + what);
  };
  const Status fits = check_fit(options, *one);
  if (fits.ok()) {
    tell(fmt::format("the whole model on {}, which has room for it", name));
    return one;
  }
  if (one->name() == "cpu" && names.size() < 2) return fits.error();
  one.reset();
  first.check_device = options.check_device;
  std::string why = fmt::format("one device: {}", fits.error().message);
  for (const Arrangement& next : arrangements(first, names, options.settings.value(kDevices, ""), name)) {
    const bool experts = next.options.settings.value(kExperts, "device") != "device";
    Result<std::unique_ptr<Backend>> made =
        experts ? make_experts(next.options, -1, make_one) : make_layers(next.options, make_one);
    const Status good = made.ok() ? check_fit(options, **made) : Status(made.error());
    if (good.ok()) {
      tell(fmt::format("{}, because {}", next.what, why));
      return made;
    }
    why += fmt::format("; {}: {}", next.what, good.error().message);
  }
  return Error{Code::kExhausted, fmt::format("--split auto: the model fits nowhere: {}", why)};
}

}  // namespace

std::vector<BackendFlag> flags() {
  return {
      {kSplit, "HOW", "none",
       "How to divide the model over --devices: none (default), layers (consecutive layers on each), tensor "
       "(a part of every layer on each, computed at the same time) or auto (the first of these that fits: "
       "one device, a mixture's experts on the cpu backend, layers; prints its choice)",
       check_split},
      {kDevices, "LIST", "",
       "Devices for --split, in order: BACKEND, BACKEND:NUMBER or NUMBER (a GPU), such as cuda:0,cuda:1. All "
       "or none with =LAYERS, such as 0=30,cpu=10; without it, layers are divided by free memory. tensor "
       "needs equal devices",
       check_devices},
      {kExperts, "PLACE", "device",
       "Where the routed experts of a mixture run: device (default; with the rest of the model), cpu (on the "
       "cpu backend, the rest on the GPU) or cpu=N (only those of the first N layers)",
       check_experts},
  };
}

BackendSettings undivided(BackendSettings settings) {
  for (const char* flag : {kSplit, kDevices, kExperts}) settings.remove(flag);
  return settings;
}

Result<std::vector<std::string>> division_lines(BackendOptions options, const MakeOne& make_one) {
  if (!is_asked(options.settings)) return std::vector<std::string>();
  if (options.settings.value(kExperts, "device") == "device" &&
      options.settings.value(kSplit, "none") == "none")
    options.settings.set({kSplit, kLayers});
  std::string why;
  options.notice = [&why](const std::string& text) { why = text; };
  FT_ASSIGN(const std::unique_ptr<Backend> made, make(options, make_one));
  std::vector<std::string> lines = {fmt::format("1 ({}): the whole model", made->name())};
  if (made->name() == "split") {
    FT_ASSIGN(lines, static_cast<const Division&>(*made).division(*options.target));
  }
  if (!why.empty()) lines.front() += fmt::format(" ({})", why);
  return lines;
}

bool is_asked(const BackendSettings& settings) {
  return settings.value(kSplit, "none") != "none" || settings.value(kExperts, "device") != "device" ||
         !settings.value(kDevices, "").empty();
}

Result<std::unique_ptr<Backend>> make(const BackendOptions& options, const MakeOne& make_one) {
  for (const BackendFlag& flag : flags()) {
    const std::string value = options.settings.value(flag.name, flag.usual_value);
    if (const Status good = flag.check(value); !good.ok()) return wrong_flag(flag.name.data(), good.error());
  }
  const std::string how = options.settings.value(kSplit, "none");
  const int experts = *expert_layers(options.settings.value(kExperts, "device"));
  if (how != "none" && experts != 0) {
    return Error{
        Code::kInvalid,
        fmt::format("--split {} and --experts cpu divide the model in two ways; use one of them", how)};
  }
  if (how == "none" && experts == 0) {
    return Error{
        Code::kInvalid,
        "--devices without --split: add --split layers or --split tensor, or use --device for one GPU"};
  }
  if (how == kAuto) return make_automatic(options, make_one);
  Result<std::unique_ptr<Backend>> made = how == kLayers   ? make_layers(options, make_one)
                                          : how == kTensor ? make_ranks(options, make_one)
                                                           : make_experts(options, experts, make_one);
  FT_TRY(check_whole(options, made));
  return made;
}

Result<std::vector<DeviceName>> read_devices(const std::string& text, const std::string& gpu_backend) {
  std::vector<DeviceName> devices;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    std::string one = text.substr(begin, end - begin);
    begin = end + 1;
    const auto wrong = [&](const char* why) {
      return Error{Code::kInvalid, fmt::format("'{}' {}; example: cuda:0=30,cpu=10", one, why)};
    };
    DeviceName device;
    if (const std::size_t equal = one.find('='); equal != std::string::npos) {
      const std::optional<int> layers = count_in(std::string_view(one).substr(equal + 1));
      if (!layers) return wrong("has no number of layers after =");
      device.layers = *layers, one.resize(equal);
    }
    const std::size_t colon = one.find(':');
    device.backend = one.substr(0, colon);
    if (colon != std::string::npos) device.device = one.substr(colon + 1);
    if (device.backend.empty() || (colon != std::string::npos && device.device.empty()))
      return wrong("names no device");
    if (device.backend.find_first_not_of("0123456789") == std::string::npos) {
      if (colon != std::string::npos) return wrong("names no backend");
      device.device = device.backend, device.backend = gpu_backend;
    }
    if (device.backend == "auto") return wrong("is not one device");
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace ft::split
