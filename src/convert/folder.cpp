#include "convert/folder.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/text_file.h"

namespace ft::convert {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxTextBytes = std::size_t{256} << 20;
constexpr const char* kCarried[] = {"tokenizer.json",
                                    "tokenizer_config.json",
                                    "tokenizer.model",
                                    "chat_template.jinja",
                                    "chat_template.json",
                                    "vocab.json",
                                    "merges.txt",
                                    "added_tokens.json",
                                    "special_tokens_map.json",
                                    "generation_config.json",
                                    "preprocessor_config.json",
                                    "video_preprocessor_config.json",
                                    "processor_config.json"};
constexpr std::string_view kCarriedBeginnings[] = {"LICENSE", "LICENCE", "NOTICE", "USE_POLICY"};

Error cannot(const std::string& path, const char* task, int number) {
  return Error{number == ENOSPC ? Code::kExhausted : Code::kIo,
               path + ": cannot be " + task + ": " + std::strerror(number) +
                   "; check the folder, its permissions and the disk"};
}

json format_json(const format::Quantisation& q) {
  return {{"group_size", q.group}, {"bits", q.bits}, {"mode", std::string(format::quant_mode_name(q.mode))}};
}

/// The most frequent format of the target by parameters is global; every other module has its own entry.
json quantisation_json(const Plan& plan) {
  json map = format_json(plan.base);
  for (const OutputFile& file : plan.files) {
    for (const OutputTensor& tensor : file.tensors) {
      if (tensor.quantised() && tensor.q != plan.base) map[tensor.module()] = format_json(tensor.q);
    }
  }
  return map;
}

bool any_codes(const Plan& plan) {
  for (const OutputFile& file : plan.files) {
    for (const OutputTensor& tensor : file.tensors) {
      if (tensor.quantised()) return true;
    }
  }
  return false;
}

/// The section of config.json that describes the text model.
json& text_section(json& config) {
  const auto at = config.find("text_config");
  return at != config.end() && at->is_object() ? *at : config;
}

json config_json(const Source& source, const Recipe& recipe, const Plan& plan) {
  json config = *source.config;
  for (json* section : {&config, &text_section(config)}) {
    section->erase("quantization_config");
    section->erase("quantization");
  }
  if (any_codes(plan)) config["quantization"] = config["quantization_config"] = quantisation_json(plan);
  const bool carried = recipe.vision == VisionTreatment::kKeep && !other_weight_files(source).empty();
  if (!plan.has_vision && !carried) config.erase("vision_config");
  if (plan.has_head) {
    config["mlx_lm_extra_tensors"] = {{"mtp_file", kHeadFile}};
    config["mtplx_mtp_norm_encoding"] = plan.head_norms_final ? "final" : "delta";
    if (!config.contains("mtplx_mtp_contract")) {
      config["mtplx_mtp_contract"] = {{"base_hidden_variant", "post_norm"},
                                      {"mtp_hidden_variant", "post_norm"},
                                      {"concat_order", "embedding_hidden"},
                                      {"mtp_position_mode", "cache"}};
    }
  } else {
    for (const char* key : {"mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_layers"}) {
      if (text_section(config).contains(key)) text_section(config)[key] = 0;
    }
  }
  return config;
}

std::string index_text(const Plan& plan) {
  json map = json::object();
  std::uint64_t bytes = 0;
  for (const OutputFile& file : plan.files) {
    if (file.name == kHeadFile) continue;
    for (const OutputTensor& tensor : file.tensors) {
      bytes += tensor.bytes();
      for (const format::TensorSpec& spec : tensor.specs()) map[spec.name] = file.name;
    }
  }
  const json index = {{"metadata", {{"total_size", bytes}, {"total_parameters", plan.parameters}}},
                      {"weight_map", std::move(map)}};
  return write_json(index, 4) + "\n";
}

Result<std::string> read_text(const std::string& path) {
  FT_ASSIGN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kMaxTextBytes) {
    return Error{Code::kCorrupt, path + ": is larger than 256 MiB; remove it from the source folder"};
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

/// The keys of a model card's front matter (between the first two lines of "---") that stay with the weights.
std::string carried_front_matter(const std::string& card) {
  if (!card.starts_with("---\n")) return {};
  const std::size_t end = card.find("\n---", 4);
  if (end == std::string::npos) return {};
  constexpr std::string_view kKeys[] = {"license", "language", "pipeline_tag", "extra_gated"};
  std::string kept;
  bool inside = false;  // of a key that is kept: its indented lines belong to it
  for (std::size_t at = 4; at < end;) {
    const std::size_t stop = std::min(card.find('\n', at), end);
    const std::string_view line = std::string_view(card).substr(at, stop - at);
    const bool begins = !line.empty() && line.front() != ' ' && line.front() != '-';
    if (begins) inside = std::ranges::any_of(kKeys, [&](auto key) { return line.starts_with(key); });
    if (inside) kept.append(line).append("\n");
    at = stop + 1;
  }
  return kept;
}

std::string count_text(double count) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", count);
  return text.data();
}

std::string card_text(const Source& source, const Recipe& recipe, const Plan& plan,
                      const std::string& original) {
  const std::string name = fs::path(source.directory).lexically_normal().filename().string();
  std::map<std::string, std::int64_t> formats;
  for (const OutputFile& file : plan.files) {
    for (const OutputTensor& tensor : file.tensors) {
      const std::string kept = "as stored (" + std::string(format::dtype_name(tensor.type)) + ")";
      formats[tensor.quantised() ? format::quantisation_text(tensor.q) : kept] +=
          tensor.shape.empty() ? 1 : rows_of(tensor.shape) * tensor.shape.back();
    }
  }
  std::string text = "---\n" + carried_front_matter(original) +
                     "library_name: mlx\ntags:\n- mlx\nbase_model: " + write_json(json(name)) +
                     "\nbase_model_relation: quantized\n---\n# " + name + ", " + recipe.name +
                     "\n\nMade from " + source.format + " by `foretoken` in the layout of MLX.\n\n" +
                     "| format | parameters |\n| --- | --- |\n";
  for (const auto& [format, parameters] : formats) {
    text += "| " + format + " | " + count_text(static_cast<double>(parameters)) + " |\n";
  }
  text += "\n" + count_text(static_cast<double>(plan.bytes) * 8 / static_cast<double>(plan.parameters)) +
          " bits a weight on average. ";
  text += plan.has_head ? "The MTP head is in `mtp.safetensors`.\n" : "It has no MTP head.\n";
  return text;
}

std::string origin_text(const Source& source, const Recipe& recipe, const Plan& plan) {
  std::int64_t exact = 0, changed = 0;
  for (const OutputFile& file : plan.files) {
    for (const OutputTensor& tensor : file.tensors) {
      const bool same = tensor.how != OutputTensor::How::kEncode && tensor.exact;
      (same ? exact : changed) += tensor.shape.empty() ? 1 : rows_of(tensor.shape) * tensor.shape.back();
    }
  }
  const json origin = {{"source", fs::path(source.directory).lexically_normal().filename().string()},
                       {"source_format", source.format},
                       {"recipe", recipe_text(recipe)},
                       {"parameters_kept_exactly", exact},
                       {"parameters_rounded", changed},
                       {"equal_to", "mx.quantize of MLX 0.32.4 on a CPU"}};
  return write_json(origin, 2) + "\n";
}

Status copy_texts(const Source& source, const std::string& directory) {
  std::error_code failed;
  std::vector<std::string> names(std::begin(kCarried), std::end(kCarried));
  for (const fs::directory_entry& entry : fs::directory_iterator(source.directory, failed)) {
    const std::string name = entry.path().filename().string();
    if (std::ranges::any_of(kCarriedBeginnings, [&](auto begin) { return name.starts_with(begin); })) {
      names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    const fs::path from = fs::path(source.directory) / name;
    if (!fs::is_regular_file(from, failed)) continue;
    FT_ASSIGN(const std::string text, read_text(from.string()));
    FT_TRY(write_whole((fs::path(directory) / name).string(), text));
  }
  for (const auto& [name, text] : source.made_files)
    FT_TRY(write_whole((fs::path(directory) / name).string(), text));
  return {};
}

/// Weights that are copied unchanged: they may be of any size, so the system copies them.
Status copy_file(const Source& source, const std::string& name, const fs::path& folder) {
  const fs::path part = folder / (name + ".part");
  std::error_code failed;
  fs::copy_file(fs::path(source.directory) / name, part, fs::copy_options::overwrite_existing, failed);
  if (!failed) fs::rename(part, folder / name, failed);
  return failed ? Status(cannot((folder / name).string(), "copied", failed.value())) : Status();
}

}  // namespace

std::vector<std::string> other_weight_files(const Source& source) {
  if (source.checkpoint->metadata_format() == "gguf") return {};  // its neighbours are other models
  std::set<std::string> known = {"model.safetensors", kHeadFile, "model-mtp.safetensors"};
  for (const format::TensorView& tensor : source.checkpoint->tensors())
    known.insert(fs::path(tensor.file).filename().string());
  std::vector<std::string> others;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(source.directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") && !known.contains(name)) others.push_back(name);
  }
  std::ranges::sort(others);
  return others;
}

Status write_whole(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.flush();
    if (!file) return cannot(part, "written", errno);
  }
  std::error_code failed;
  fs::rename(part, path, failed);
  return failed ? Status(cannot(path, "written", failed.value())) : Status();
}

Status write_side_files(const Source& source, const Recipe& recipe, const Plan& plan,
                        const std::string& directory) {
  const fs::path folder(directory);
  if (recipe.vision == VisionTreatment::kKeep) {
    for (const std::string& name : other_weight_files(source)) FT_TRY(copy_file(source, name, folder));
  }
  FT_TRY(write_whole((folder / "model.safetensors.index.json").string(), index_text(plan)));
  FT_TRY(copy_texts(source, directory));
  std::string original;
  std::error_code ignored;
  if (const fs::path card = fs::path(source.directory) / "README.md"; fs::is_regular_file(card, ignored)) {
    FT_ASSIGN(original, read_text(card.string()));
    original.erase(0, original.size() - without_byte_order_mark(original).size());
  }
  FT_TRY(write_whole((folder / "README.md").string(), card_text(source, recipe, plan, original)));
  return write_whole((folder / "foretoken.json").string(), origin_text(source, recipe, plan));
}

Status write_config(const Source& source, const Recipe& recipe, const Plan& plan,
                    const std::string& directory) {
  return write_whole((fs::path(directory) / "config.json").string(),
                     write_json(config_json(source, recipe, plan), 2) + "\n");
}

}  // namespace ft::convert
