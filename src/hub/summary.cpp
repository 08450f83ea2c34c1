#include "hub/summary.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/checksum.h"
#include "base/system.h"
#include "format/checkpoint.h"
#include "format/gguf/files.h"
#include "format/json_text.h"
#include "format/safetensors.h"
#include "hub/repository.h"

namespace ft::hub {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;
constexpr std::int64_t kInlineBytes = 4096;  // a small file may be inside of its directory entry

/// Whether the file's bytes are on this disk: opening another one would fetch it from a cloud.
bool is_local(const struct stat& facts) { return facts.st_size <= kInlineBytes || facts.st_blocks > 0; }

/// The first `limit` bytes of a file that is on this disk; nothing for other files.
std::optional<std::string> read_start(const std::string& path, std::size_t offset, std::size_t limit) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  std::optional<std::string> text;
  struct stat facts{};
  if (::fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && is_local(facts)) {
    const auto size = static_cast<std::size_t>(facts.st_size);
    text.emplace(std::min(limit, size > offset ? size - offset : 0), '\0');
    std::size_t got = 0;
    while (got < text->size()) {
      const ssize_t more =
          ::pread(file, text->data() + got, text->size() - got, static_cast<off_t>(offset + got));
      if (more <= 0) break;
      got += static_cast<std::size_t>(more);
    }
    text->resize(got);
  }
  ::close(file);
  return text;
}

std::string text_member(const json& object, const char* key) {
  const auto at = object.find(key);
  const auto* text = at == object.end() ? nullptr : at->get_ptr<const std::string*>();
  return text == nullptr ? std::string() : *text;
}

const json* object_at(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_object() ? &*at : nullptr;
}

int whole_at(const json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number_integer() ? at->get<int>() : 0;
}

void read_quantisation(const json& config, ModelSummary& summary) {
  if (const json* mlx = object_at(config, "quantization"); mlx != nullptr && whole_at(*mlx, "bits") > 0) {
    const std::string mode = text_member(*mlx, "mode");
    summary.bits = whole_at(*mlx, "bits");
    summary.quantisation = fmt::format("{}-bit {}", whole_at(*mlx, "bits"), mode.empty() ? "affine" : mode);
    return;
  }
  const json* other = object_at(config, "quantization_config");
  if (other == nullptr) return;
  const std::string method = text_member(*other, "quant_method");
  summary.bits = whole_at(*other, "bits");
  summary.foreign = !method.empty() && method != "mlx" && method != "mxfp4";
  summary.quantisation = method.empty()     ? fmt::format("{:.0f}-bit", summary.bits)
                         : summary.bits > 0 ? fmt::format("{:.0f}-bit {}", summary.bits, method)
                                            : method;
}

void read_config(ModelSummary& summary, std::set<std::string>& named) {
  const Result<format::JsonDocument> document =
      format::parse_json(summary.config, "config.json", format::DuplicateKeys::kLastWins);
  if (!document.ok() || !(*document)->is_object()) {
    summary.problem = "config.json is damaged";
    return;
  }
  const json& config = **document;
  summary.model_type = text_member(config, "model_type");
  if (const auto list = config.find("architectures");
      list != config.end() && list->is_array() && !list->empty()) {
    if (const auto* name = list->front().get_ptr<const std::string*>()) summary.architecture = *name;
  }
  const json* text = object_at(config, "text_config");
  for (const json* level : {&config, text}) {
    if (level == nullptr) continue;
    summary.head_in_config = summary.head_in_config || whole_at(*level, "mtp_num_hidden_layers") > 0 ||
                             whole_at(*level, "num_nextn_predict_layers") > 0;
    if (summary.quantisation.empty()) read_quantisation(*level, summary);
  }
  if (const json* extra = object_at(config, "mlx_lm_extra_tensors")) {
    if (const std::string file = text_member(*extra, "mtp_file"); !file.empty()) named.insert(file);
  }
}

/// The weight files: the index's files, else all safetensors files, and the files that config.json names.
std::set<std::string> weight_files(const std::string& directory, std::set<std::string> named,
                                   ModelSummary& summary) {
  const fs::path folder(directory);
  const std::optional<std::string> index =
      read_start((folder / "model.safetensors.index.json").string(), 0, format::kMaxConfigBytes);
  if (index) {
    const Result<format::JsonDocument> document =
        format::parse_json(*index, "index", format::DuplicateKeys::kLastWins);
    const json* map =
        document.ok() && (*document)->is_object() ? object_at(**document, "weight_map") : nullptr;
    if (map == nullptr) summary.problem = "model.safetensors.index.json is damaged";
    for (auto at = map == nullptr ? json::const_iterator() : map->begin(); map != nullptr && at != map->end();
         ++at) {
      if (at->is_string()) named.insert(at->get<std::string>());
    }
  }
  const bool whole_list = index && summary.problem.empty();
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename().string();
    if (name.ends_with(".incomplete") || name.ends_with(".part"))
      summary.problem = "a file is not whole: " + name;
    const bool head = name.starts_with("mtp");
    if (name.ends_with(".safetensors") && (!whole_list || head)) named.insert(name);
  }
  for (const char* name : {"mtp/weights.safetensors", "model-mtp.safetensors"}) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) named.insert(name);
  }
  return named;
}

/// The hash that a cache names the file by, or its time.
std::string content_name(const fs::path& path, const struct stat& facts) {
  std::error_code failed;
  std::string target = fs::read_symlink(path, failed).filename().string();
  constexpr std::size_t kDigits = 64;
  if (!failed && is_hex(target, kDigits)) return target;
  constexpr std::int64_t kSecond = 1'000'000'000;
  return fmt::format("{}.{}", modified_ns(facts) / kSecond, modified_ns(facts) % kSecond);
}

/// Adds one weight file to the summary, and a line about it to `identity`.
void add_weights(const std::string& directory, const std::string& name, ModelSummary& summary,
                 std::map<std::string, int>& types, std::string& identity) {
  const fs::path path = fs::path(directory) / name;
  struct stat facts{};
  if (!check_file_path(name).ok() || ::stat(path.c_str(), &facts) != 0) {
    summary.problem = fmt::format("{} is missing", name);
    return;
  }
  summary.bytes += facts.st_size;
  summary.used_s = std::max<std::int64_t>(summary.used_s, facts.st_atime);
  summary.changed_s = std::max<std::int64_t>(summary.changed_s, facts.st_mtime);
  if (!is_local(facts)) {
    summary.cloud = true;
    summary.problem = fmt::format("{} is not on this disk", name);
    return;
  }
  std::uint64_t header_bytes = 0;
  const std::optional<std::string> length = read_start(path.string(), 0, sizeof header_bytes);
  if (length && length->size() == sizeof header_bytes)
    std::memcpy(&header_bytes, length->data(), sizeof header_bytes);
  HeaderFacts header;
  std::optional<std::string> text;
  if (header_bytes > 0 && header_bytes <= format::kMaxHeaderBytes)
    text = read_start(path.string(), sizeof header_bytes, header_bytes);
  if (!text || text->size() != header_bytes || !parse_header(*text, header_bytes, header)) {
    summary.problem = fmt::format("{} cannot be read or has no safetensors header", name);
    return;
  }
  if (static_cast<std::uint64_t>(facts.st_size) < header.needed_bytes) {
    summary.problem = fmt::format("{} has {} of {} bytes", name, facts.st_size, header.needed_bytes);
  }
  if (header.has_head) summary.head_file = name;
  if (!header.type.empty()) ++types[header.type];
  identity +=
      fmt::format("{} {} {} {}\n", name, facts.st_size, fingerprint(*text), content_name(path, facts));
}

}  // namespace

bool parse_header(std::string_view text, std::uint64_t header_bytes, HeaderFacts& facts) {
  const Result<format::JsonDocument> document =
      format::parse_json(text, "header", format::DuplicateKeys::kLastWins);
  if (!document.ok() || !(*document)->is_object()) return false;
  std::uint64_t last = 0;
  std::map<std::string, int> types;
  for (const auto& [name, tensor] : (*document)->items()) {
    if (name == "__metadata__") continue;
    const auto offsets = tensor.is_object() ? tensor.find("data_offsets") : tensor.end();
    if (!tensor.is_object() || offsets == tensor.end() || !offsets->is_array() || offsets->size() != 2)
      return false;
    const json& end = (*offsets)[1];
    if (!end.is_number_unsigned()) return false;
    last = std::max(last, end.get<std::uint64_t>());
    // GLM holds the head as a layer, which alone has an eh_proj.
    facts.has_head = facts.has_head || format::is_mtp_name(name) || name.ends_with(".eh_proj.weight");
    ++types[text_member(tensor, "dtype")];
  }
  constexpr std::uint64_t kLargest = std::uint64_t{1} << 50;
  if (last > kLargest) return false;
  facts.needed_bytes = sizeof(std::uint64_t) + header_bytes + last;
  const auto most = std::ranges::max_element(types, {}, [](const auto& type) { return type.second; });
  if (most != types.end()) facts.type = most->first;
  return true;
}

ModelSummary summarise_folder(const std::string& directory) {
  ModelSummary summary;
  summary.directory = directory;
  const fs::path folder(directory);
  const auto text_of = [&](const char* name) {
    return read_start((folder / name).string(), 0, kMaxConfigBytes).value_or("");
  };
  summary.config = text_of("config.json");
  summary.generation = text_of("generation_config.json"), summary.runtime = text_of("mtplx_runtime.json");
  std::error_code ignored;
  summary.has_tokenizer = fs::exists(folder / "tokenizer.json", ignored);
  if (summary.config.empty()) {
    summary.problem = "config.json is missing or unreadable";
    return summary;
  }
  std::set<std::string> named;
  read_config(summary, named);
  std::map<std::string, int> types;
  std::string identity = fingerprint(summary.config) + "\n";
  named = weight_files(directory, std::move(named), summary);
  for (const std::string& name : named) add_weights(directory, name, summary, types, identity);
  if (named.empty() && summary.problem.empty()) summary.problem = "it has no weights";
  if (summary.quantisation.empty() && !types.empty()) {
    summary.quantisation =
        lower(std::ranges::max_element(types, {}, [](const auto& type) { return type.second; })->first);
  }
  summary.identity = fingerprint(identity);
  return summary;
}

namespace {

/// The other parts of a file that has several.
void add_parts(const std::string& path, ModelSummary& summary) {
  const format::ShardName shard = format::read_shard_name(path);
  std::string absent;
  for (int part = 1; part <= shard.count; ++part) {
    if (part == shard.number) continue;
    struct stat facts{};
    const std::string other = shard.path(part);
    if (::stat(other.c_str(), &facts) == 0) {
      summary.bytes += facts.st_size;
    } else if (absent.empty()) {
      absent = fs::path(other).filename().string();
    }
  }
  if (!absent.empty()) summary.problem = absent + " is not next to it";
}

}  // namespace

ModelSummary summarise_gguf(const std::string& path) {
  ModelSummary summary;
  summary.directory = path, summary.gguf = true;
  summary.quantisation = "GGUF";
  struct stat facts{};
  const bool found = ::stat(path.c_str(), &facts) == 0;
  summary.bytes = found ? facts.st_size : 0;
  summary.used_s = facts.st_atime, summary.changed_s = facts.st_mtime;
  summary.cloud = found && !is_local(facts);
  constexpr std::size_t kStart = 64 << 10;  // the architecture is the first key of all writers
  const std::string start = read_start(path, 0, kStart).value_or("");
  if (summary.cloud) {
    summary.problem = "it is not on this disk";
  } else if (!start.starts_with("GGUF")) {
    summary.problem = "it cannot be read or is not a GGUF file";
  } else {
    const format::GgufFile seen = format::peek_gguf(std::as_bytes(std::span(start)));
    summary.architecture = seen.text("general.architecture", "");
    summary.has_tokenizer = true;
    summary.head_in_config = seen.whole(summary.architecture + ".nextn_predict_layers", 0) > 0;
    if (summary.head_in_config) summary.head_file = fs::path(path).filename().string();
    add_parts(path, summary);
  }
  summary.identity = fingerprint(fmt::format("{} {} {}", fingerprint(start), summary.bytes, facts.st_mtime));
  return summary;
}

std::vector<std::string> gguf_models(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    const std::string path = entry->path().string();
    const std::string name = lower(entry->path().filename().string());
    if (name.ends_with(".safetensors")) return {};
    const bool part = name.starts_with("mmproj") || name.starts_with("mtp-");
    if (name.ends_with(".gguf") && !part && format::read_shard_name(path).number <= 1) found.push_back(path);
  }
  std::ranges::sort(found);
  return found;
}

ModelSummary summarise_place(const std::string& path) {
  std::error_code failed;
  return fs::is_directory(path, failed) ? summarise_folder(path) : summarise_gguf(path);
}

}  // namespace ft::hub
