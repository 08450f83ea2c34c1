#include "format/shard_list.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "format/checkpoint.h"
#include "format/json_text.h"

namespace ft::format {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kVision = "vision.safetensors";
constexpr std::array<const char*, 3> kUsualSidecars = {"mtp.safetensors", "mtp/weights.safetensors",
                                                       "model-mtp.safetensors"};

bool exists(const std::string& directory, const std::string& relative) {
  std::error_code ignored;  // the open that follows reports a path that cannot be examined
  return fs::exists(fs::symlink_status(fs::path(directory) / relative, ignored));
}

/// `relative` comes from a file of the model, so it must not lead out of the directory.
Status check_confined(const std::string& relative, const std::string& origin, const std::string& key) {
  const fs::path path(relative);
  bool confined = !relative.empty() && !path.is_absolute() && relative.find('\0') == std::string::npos;
  for (const fs::path& part : path) confined = confined && part != "..";
  if (confined) return {};
  return Error{Code::kInvalid, origin + ": " + key +
                                   ": expected a path inside the model's directory, found " +
                                   in_quotes(relative) + "; correct it or download the file again"};
}

Result<std::string> confined_string(const json& value, const std::string& origin, const std::string& key) {
  if (!value.is_string()) {
    return Error{Code::kInvalid, origin + ": " + key + ": expected a file name, found " + value.type_name() +
                                     "; correct it or download the file again"};
  }
  auto relative = value.get<std::string>();
  FT_TRY(check_confined(relative, origin, key));
  return fs::path(relative).lexically_normal().generic_string();
}

/// A sidecar that `key` of `object` names. It must exist, because the model names it.
Result<std::string> named_sidecar(const json& object, const char* key, const std::string& origin,
                                  const std::string& directory) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return std::string();
  FT_ASSIGN(std::string relative, confined_string(*at, origin, key));
  if (!exists(directory, relative)) {
    return Error{Code::kNotFound,
                 origin + ": " + key + " names " + in_quotes(relative) +
                     ", which is not in the directory; download it, or remove the key to run "
                     "without the MTP head"};
  }
  return relative;
}

Result<std::string> find_sidecar(const std::string& directory) {
  if (exists(directory, "config.json")) {
    const std::string origin = (fs::path(directory) / "config.json").string();
    FT_ASSIGN(const JsonDocument config, read_json_object(origin));
    const auto extra = config->find("mlx_lm_extra_tensors");
    if (extra != config->end() && extra->is_object()) {
      FT_ASSIGN(std::string named, named_sidecar(*extra, "mtp_file", origin, directory));
      if (!named.empty()) return named;
    }
  }
  if (exists(directory, "mtplx_runtime.json")) {
    const std::string origin = (fs::path(directory) / "mtplx_runtime.json").string();
    FT_ASSIGN(const JsonDocument runtime, read_json_object(origin));
    for (const char* key : {"mtp_sidecar_file", "mtp_file"}) {
      FT_ASSIGN(std::string named, named_sidecar(*runtime, key, origin, directory));
      if (!named.empty()) return named;
    }
  }
  for (const char* usual : kUsualSidecars) {
    if (exists(directory, usual)) return std::string(usual);
  }
  return std::string();
}

Status read_index(const std::string& directory, ShardList& list) {
  list.index_path = (fs::path(directory) / kIndexName).string();
  FT_ASSIGN(const JsonDocument index, read_json_object(list.index_path));
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object() || map->empty()) {
    return Error{Code::kCorrupt, list.index_path +
                                     ": expected a 'weight_map' that names at least one tensor, found " +
                                     (map == index->end() ? "none" : std::string(map->dump(), 0, 40)) +
                                     "; download the index again"};
  }
  std::set<std::string> shards;
  for (const auto& [tensor, file] : map->items()) {
    FT_ASSIGN(std::string relative,
              confined_string(file, list.index_path, "weight_map " + in_quotes(tensor)));
    shards.insert(relative);
    list.weight_map.emplace(tensor, std::move(relative));
  }
  for (const std::string& shard : shards) {
    if (exists(directory, shard)) continue;
    return Error{Code::kNotFound,
                 list.index_path + ": names the file " + in_quotes(shard) +
                     ", which is not in the directory; the download is incomplete: fetch it"};
  }
  list.shards.assign(shards.begin(), shards.end());
  return {};
}

struct NumberedName {
  std::string stem;  // "model" of model-00002-of-00005.safetensors
  std::size_t number = 0;
  std::size_t total = 0;
};

std::optional<NumberedName> numbered(const std::string& file) {
  constexpr std::string_view kOf = "-of-";
  const std::size_t of = file.rfind(kOf);
  if (of == std::string::npos) return std::nullopt;
  const std::size_t dash = file.rfind('-', of == 0 ? 0 : of - 1);
  const std::size_t dot = file.find('.', of);
  if (dash == std::string::npos || dash >= of || dot == std::string::npos) return std::nullopt;
  const std::string number = file.substr(dash + 1, of - dash - 1);
  const std::string total = file.substr(of + kOf.size(), dot - of - kOf.size());
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.size() <= 6 && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (!is_number(number) || !is_number(total)) return std::nullopt;
  return NumberedName{file.substr(0, dash), std::stoul(number), std::stoul(total)};
}

/// Without an index the file names give the number of shards.
Status check_none_missing(const std::string& directory, const std::vector<std::string>& shards) {
  std::map<std::pair<std::string, std::size_t>, std::set<std::size_t>> series;
  for (const std::string& shard : shards) {
    const std::optional<NumberedName> name = numbered(shard);
    if (name) series[{name->stem, name->total}].insert(name->number);
  }
  for (const auto& [name, numbers] : series) {
    for (std::size_t i = 1; i <= name.second; ++i) {
      if (numbers.contains(i)) continue;
      return Error{Code::kNotFound, directory + ": expected " + std::to_string(name.second) + " files " +
                                        in_quotes(name.first) + ", found " + std::to_string(numbers.size()) +
                                        " (number " + std::to_string(i) +
                                        " is missing); the download is incomplete: fetch it"};
    }
  }
  return {};
}

Status glob_shards(const std::string& directory, ShardList& list) {
  if (exists(directory, "model.safetensors")) {
    list.shards = {"model.safetensors"};
    return {};
  }
  std::vector<std::string> model_files;
  std::vector<std::string> other_files;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool usual_sidecar = std::count(kUsualSidecars.begin(), kUsualSidecars.end(), name) > 0;
    if (it->path().extension() != ".safetensors" || usual_sidecar || name == list.sidecar) continue;
    (name.starts_with("model") ? model_files : other_files).push_back(name);
  }
  if (error) {
    return Error{Code::kIo,
                 directory + ": cannot list the directory: " + error.message() + "; check its permissions"};
  }
  list.shards = model_files.empty() ? std::move(other_files) : std::move(model_files);
  if (list.shards.empty()) {
    return Error{Code::kNotFound,
                 directory +
                     ": expected safetensors files, found none; give the directory of a model "
                     "in Hugging Face or MLX layout, or download one"};
  }
  return check_none_missing(directory, list.shards);
}

}  // namespace

Result<ShardList> list_shards(const std::string& directory, const std::string& head_file) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return Error{fs::exists(directory, error) ? Code::kInvalid : Code::kNotFound,
                 directory + ": expected a model's directory, found " +
                     (fs::exists(directory, error) ? "something else" : "nothing") +
                     "; give the directory that holds config.json and the safetensors files"};
  }
  ShardList list;
  list.sidecar = head_file;
  if (head_file.empty()) {
    FT_ASSIGN(list.sidecar, find_sidecar(directory));
  }
  if (exists(directory, kIndexName)) {
    FT_TRY(read_index(directory, list));
  } else {
    FT_TRY(glob_shards(directory, list));
  }
  std::erase(list.shards, list.sidecar);
  if (exists(directory, kVision) && std::ranges::find(list.shards, kVision) == list.shards.end())
    list.vision = kVision;
  std::sort(list.shards.begin(), list.shards.end());
  if (list.shards.size() > kMaxShards) {
    return Error{Code::kExhausted, directory + ": expected at most " + std::to_string(kMaxShards) +
                                       " safetensors files, found " + std::to_string(list.shards.size()) +
                                       "; convert the model with larger shards"};
  }
  return list;
}

}  // namespace ft::format
