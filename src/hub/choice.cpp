#include "hub/choice.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <nlohmann/json.hpp>
#include <set>

#include "base/ascii.h"
#include "format/gguf/files.h"
#include "format/json_text.h"

namespace ft::hub {
namespace {

using nlohmann::json;

constexpr const char* kTexts[] = {"*.json", "*.py",    "tokenizer.model", "*.tiktoken", "tiktoken.model",
                                  "*.txt",  "*.jsonl", "*.jinja",         "README.md"};
/// Weights of any size in formats that are not read here.
constexpr const char* kOtherWeights[] = {
    "*.bin", "*.pt",  "*.pth",         "*.ckpt", "*.onnx", "*.onnx_data", "*.msgpack", "*.h5",
    "*.ot",  "*.npz", "*.safetensors", "*.gguf", "*.pkl",  "*.llamafile", "*.tflite",  "*.mlmodel"};
constexpr const char* kNeverUsual[] = {"original/*", "consolidated*", "onnx/*", "openvino/*"};

bool matches(const std::string& path, const char* pattern) {
  return ::fnmatch(pattern, path.c_str(), 0) == 0;  // '*' matches '/' too, as in huggingface_hub
}

template <class Patterns>
bool matches_any(const std::string& path, const Patterns& patterns) {
  return std::ranges::any_of(patterns, [&](const auto& pattern) {
    if constexpr (std::is_same_v<std::decay_t<decltype(pattern)>, std::string>) {
      return matches(path, pattern.c_str());
    } else {
      return matches(path, pattern);
    }
  });
}

bool is_safetensors(const RemoteFile& file) { return file.path.ends_with(".safetensors"); }
constexpr std::string_view kGgufEnding = ".gguf";
bool is_gguf(const RemoteFile& file) { return lower(file.path).ends_with(".gguf"); }
/// A separate vision tower, which mlx-lm leaves out.
bool is_tower(const RemoteFile& file) { return file.path == "vision.safetensors"; }
bool is_head(const RemoteFile& file) {
  return is_safetensors(file) && lower(file.path).find("mtp") != std::string::npos;
}

std::vector<RemoteFile> usual_weights(const std::vector<RemoteFile>& files) {
  std::vector<RemoteFile> named, at_top;
  for (const RemoteFile& file : files) {
    if (!is_safetensors(file) || matches_any(file.path, kNeverUsual)) continue;
    if (file.path.starts_with("model") || is_head(file) || is_tower(file)) named.push_back(file);
    if (file.path.find('/') == std::string::npos) at_top.push_back(file);
  }
  const bool has_model =
      std::ranges::any_of(named, [](const RemoteFile& file) { return file.path.starts_with("model"); });
  return has_model ? named : at_top;
}

/// "m-Q8_0" of "m-Q8_0-00001-of-00003", which names a part: all of them belong together.
std::string without_part(const std::string& stem) {
  const format::ShardName part = format::read_shard_name(stem + std::string(kGgufEnding));
  return part.count > 0 ? part.before : stem;
}

Result<std::vector<RemoteFile>> gguf_weights(const std::vector<RemoteFile>& files,
                                             const Repository& repository) {
  std::vector<RemoteFile> chosen, similar;
  std::vector<std::string> names;
  const std::string wanted = lower(without_part(repository.quantisation));
  for (const RemoteFile& file : files) {
    if (!is_gguf(file)) continue;
    names.push_back(file.path);
    const std::string name = lower(without_part(file.path.substr(0, file.path.size() - kGgufEnding.size())));
    const std::string last = name.substr(name.rfind('/') + 1);
    if (wanted.empty() || last.starts_with("mmproj") || last.starts_with("mtp-")) continue;
    if (name.ends_with(wanted)) chosen.push_back(file);
    if (name.find(wanted) != std::string::npos) similar.push_back(file);
  }
  if (chosen.empty()) chosen = std::move(similar);
  if (!chosen.empty()) return chosen;
  constexpr std::size_t kShown = 12;
  const std::size_t all = names.size();
  if (all > kShown) names.resize(kShown), names.push_back(fmt::format("and {} more", all - kShown));
  if (names.empty()) {
    return Error{
        Code::kNotFound,
        fmt::format("{} contains neither safetensors nor GGUF weights; name a repository that holds a "
                    "model in Hugging Face or MLX layout",
                    repository.id())};
  }
  if (wanted.empty()) {
    return Error{Code::kNotFound,
                 fmt::format("{} has weights in GGUF only: {}; name one, such as {}:Q8_0, or take its MLX "
                             "or original repository",
                             repository.id(), fmt::join(names, ", "), repository.id())};
  }
  return Error{Code::kNotFound, fmt::format("{} has no GGUF file '{}'; it has {}", repository.id(),
                                            repository.quantisation, fmt::join(names, ", "))};
}

std::vector<RemoteFile> other_files(const std::vector<RemoteFile>& files, const FileChoice& choice,
                                    const std::vector<std::string>& exclude) {
  std::set<std::string> chosen;
  for (const std::vector<RemoteFile>* group : {&choice.texts, &choice.weights}) {
    for (const RemoteFile& file : *group) chosen.insert(file.path);
  }
  std::vector<RemoteFile> others;
  std::int64_t bytes = 0;
  for (const RemoteFile& file : files) {
    const bool is_weights =
        matches_any(lower(file.path), kOtherWeights) || matches_any(file.path, kNeverUsual);
    if (is_weights || file.size > kMaxOtherBytes || chosen.contains(file.path)) continue;
    if (matches_any(file.path, exclude)) continue;
    others.push_back(file);
    bytes += file.size;
  }
  if (others.size() > kMaxOthers || bytes > kMaxOthersBytes) others.clear();
  return others;
}

void sort_weights(std::vector<RemoteFile>& weights) {
  std::ranges::stable_sort(weights, [](const RemoteFile& a, const RemoteFile& b) {
    const bool head_a = is_head(a), head_b = is_head(b);
    return head_a != head_b ? head_a : a.size < b.size;
  });
}

/// The file names in `weight_map` and the sidecars that a configuration names.
void collect_names(const json& document, std::set<std::string>& names) {
  if (const auto map = document.find("weight_map"); map != document.end() && map->is_object()) {
    for (const auto& [tensor, file] : map->items()) {
      if (file.is_string()) names.insert(file.get<std::string>());
    }
  }
  for (const auto& [key, value] : document.items()) {
    const bool names_file = key == "mtp_file" || key == "mtp_sidecar_file";
    if (names_file && value.is_string()) names.insert(value.get<std::string>());
    if (value.is_object() && key == "mlx_lm_extra_tensors") collect_names(value, names);
  }
}

}  // namespace

Result<FileChoice> choose_files(const std::vector<RemoteFile>& files, const Repository& repository,
                                const std::vector<std::string>& include,
                                const std::vector<std::string>& exclude) {
  FileChoice choice;
  std::vector<RemoteFile> weights = usual_weights(files);
  if (weights.empty() || !repository.quantisation.empty()) {
    FT_ASSIGN(weights, gguf_weights(files, repository));
  }
  std::set<std::string> chosen;
  for (RemoteFile& file : weights) {
    if (matches_any(file.path, exclude)) continue;
    chosen.insert(file.path);
    choice.weights.push_back(std::move(file));
  }
  for (const RemoteFile& file : files) {
    if (chosen.contains(file.path) || matches_any(file.path, exclude)) continue;
    const bool usual = matches_any(file.path, kTexts) && !matches_any(file.path, kNeverUsual);
    if (usual) choice.texts.push_back(file);
    if (!usual && matches_any(file.path, include)) choice.weights.push_back(file);
  }
  sort_weights(choice.weights);
  choice.others = other_files(files, choice, exclude);
  return choice;
}

void add_named_weights(const std::vector<RemoteFile>& files, const std::string& snapshot,
                       const std::vector<std::string>& exclude, FileChoice& choice) {
  std::set<std::string> names;
  for (const char* name :
       {"config.json", "model.safetensors.index.json", "mtplx_runtime.json", "mtp.safetensors.index.json"}) {
    const Result<format::JsonDocument> document = format::read_json_object(snapshot + "/" + name);
    if (document.ok()) collect_names(**document, names);
  }
  for (const RemoteFile& file : choice.weights) names.erase(file.path);
  for (const RemoteFile& file : files) {
    if (is_safetensors(file) && names.contains(file.path) && !matches_any(file.path, exclude))
      choice.weights.push_back(file);
  }
  sort_weights(choice.weights);
}

}  // namespace ft::hub
