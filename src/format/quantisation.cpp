#include "format/quantisation.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "format/tensor.h"

namespace ft::format {
namespace {

using nlohmann::json;

struct ModeRow {
  QuantMode mode;
  std::string_view name;
  int bits;   // by default
  int group;  // by default
};

constexpr std::array<ModeRow, 4> kModes = {{{QuantMode::kAffine, "affine", 4, 64},
                                            {QuantMode::kMxfp4, "mxfp4", 4, 32},
                                            {QuantMode::kMxfp8, "mxfp8", 8, 32},
                                            {QuantMode::kNvfp4, "nvfp4", 4, 16}}};

Error invalid(const std::string& where, const std::string& expected, const std::string& found) {
  return Error{Code::kInvalid, where + ": expected " + expected + ", found " + found +
                                   "; correct the file or download it again"};
}

std::string shown_value(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

Result<int> small_number(const json& object, const char* key, int otherwise, const std::string& where) {
  const auto at = object.find(key);
  if (at == object.end() || at->is_null()) return otherwise;
  const std::string place = where + "." + key;
  if (!at->is_number_integer()) return invalid(place, "a whole number", shown_value(*at));
  const bool fits = at->is_number_unsigned() ? at->get<std::uint64_t>() <= 4096 : false;
  if (!fits) return invalid(place, "a number from 0 to 4096", shown_value(*at));
  return at->get<int>();
}

Result<Quantisation> read_quantisation(const json& object, const std::string& where) {
  const ModeRow* row = kModes.data();
  const auto mode = object.find("mode");
  if (mode != object.end() && !mode->is_null()) {
    row = nullptr;
    for (const ModeRow& known : kModes) {
      if (mode->is_string() && mode->get_ref<const std::string&>() == known.name) row = &known;
    }
    if (row == nullptr) {
      return Error{Code::kUnsupported, where + ".mode: expected affine, mxfp4, mxfp8 or nvfp4, found " +
                                           shown_value(*mode) + "; use a model in one of these formats"};
    }
  }
  Quantisation q;
  q.mode = row->mode;
  FT_ASSIGN(q.bits, small_number(object, "bits", row->bits, where));
  FT_ASSIGN(q.group, small_number(object, "group_size", row->group, where));
  if (q.mode == QuantMode::kAffine && (!is_affine_width(q.bits) || !is_affine_group(q.group))) {
    return Error{Code::kUnsupported,
                 where + ": expected 2, 3, 4, 5, 6 or 8 bits in groups of 32, 64 or 128, found " +
                     quantisation_text(q) + "; use a model in one of these widths"};
  }
  if (q.mode != QuantMode::kAffine && (q.bits != row->bits || q.group != row->group)) {
    return Error{Code::kUnsupported, where + ": expected " +
                                         quantisation_text({row->mode, row->bits, row->group}) + ", found " +
                                         quantisation_text(q) + "; correct the file or download it again"};
  }
  return q;
}

/// Width and group from the shapes, whether or not a format has them; {0, 0} if they are not whole numbers.
Quantisation read_shapes(std::int64_t cols, std::int64_t weight_cols, std::int64_t scale_cols) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();  // keeps the product below 2^63
  Quantisation q{QuantMode::kAffine, 0, 0};
  if (cols <= 0 || weight_cols <= 0 || scale_cols <= 0 || weight_cols > kMax) return q;
  if (weight_cols * 32 % cols != 0 || cols % scale_cols != 0) return q;
  q.bits = static_cast<int>(std::min<std::int64_t>(weight_cols * 32 / cols, 99));
  q.group = static_cast<int>(std::min<std::int64_t>(cols / scale_cols, 9999));
  return q;
}

/// The object with the MLX fields, or nullptr.
const json* find_object(const json& config) {
  const auto text = config.find("text_config");
  for (const json* level : {&config, text != config.end() && text->is_object() ? &*text : nullptr}) {
    for (const char* key : {"quantization", "quantization_config"}) {
      if (level == nullptr) continue;
      const auto at = level->find(key);
      if (at != level->end() && at->is_object()) return &*at;
    }
  }
  return nullptr;
}

}  // namespace

std::string_view quant_mode_name(QuantMode mode) { return kModes[static_cast<std::size_t>(mode)].name; }

std::optional<QuantMode> find_quant_mode(std::string_view name) {
  for (const ModeRow& row : kModes) {
    if (row.name == name) return row.mode;
  }
  return std::nullopt;
}

Quantisation usual_quantisation(QuantMode mode) {
  const ModeRow& row = kModes[static_cast<std::size_t>(mode)];
  return {row.mode, row.bits, row.group};
}

std::string quantisation_text(const Quantisation& q) {
  return std::string(quant_mode_name(q.mode)) + " " + std::to_string(q.bits) + " bits, groups of " +
         std::to_string(q.group);
}

bool is_affine_width(int bits) { return bits >= 2 && bits <= 8 && bits != 7; }
bool is_affine_group(int group) { return group == 32 || group == 64 || group == 128; }

std::string normalised_module(std::string_view path) {
  if (path.ends_with(".weight")) path.remove_suffix(std::string_view(".weight").size());
  for (bool stripped = true; stripped;) {
    stripped = false;
    for (const std::string_view prefix : {"model.", "language_model."}) {
      if (!path.starts_with(prefix)) continue;
      path.remove_prefix(prefix.size());
      stripped = true;
    }
  }
  return std::string(path);
}

Result<QuantisationMap> QuantisationMap::read(const json& config, const std::string& origin) {
  QuantisationMap map;
  if (!config.is_object()) return map;
  const json* object = find_object(config);
  if (object == nullptr) return map;
  const std::string where = origin + ": quantization";

  const auto method = object->find("quant_method");
  // gpt-oss: its experts have codes and scales under special names. Other tensors are not mentioned.
  if (method != object->end() && method->is_string() && method->get_ref<const std::string&>() == "mxfp4")
    return map;
  if (method != object->end() && !method->is_null() &&
      (!method->is_string() || method->get_ref<const std::string&>() != "mlx")) {
    return Error{Code::kUnsupported, where + ".quant_method: expected an MLX quantisation, found " +
                                         shown_value(*method) +
                                         "; write an MLX version: foretoken convert DIR OUT"};
  }
  if (object->contains("bits") || object->contains("group_size") || object->contains("mode")) {
    FT_ASSIGN(map.global_, read_quantisation(*object, where));
  }
  for (const auto& [key, value] : object->items()) {
    const std::string place = where + "." + in_quotes(key);
    if (value.is_boolean()) {
      map.modules_[normalised_module(key)] = {value.get<bool>(), map.global_.value_or(Quantisation{})};
    } else if (value.is_object()) {
      FT_ASSIGN(const Quantisation q, read_quantisation(value, place));
      map.modules_[normalised_module(key)] = {true, q};
    }
  }
  return map;
}

std::optional<QuantClaim> QuantisationMap::lookup(std::string_view module) const {
  const auto at = modules_.find(normalised_module(module));
  if (at == modules_.end()) return std::nullopt;
  return at->second;
}

std::optional<Quantisation> resolve_affine(std::int64_t cols, std::int64_t weight_cols,
                                           std::int64_t scale_cols) {
  const Quantisation q = read_shapes(cols, weight_cols, scale_cols);
  if (!is_affine_width(q.bits) || !is_affine_group(q.group)) return std::nullopt;
  return q;
}

std::optional<Quantisation> resolve_block_float(std::int64_t cols, std::int64_t weight_cols,
                                                std::int64_t scale_cols) {
  const Quantisation q = read_shapes(cols, weight_cols, scale_cols);
  for (const ModeRow& row : kModes) {
    if (row.mode == QuantMode::kAffine || row.bits != q.bits || row.group != q.group) continue;
    return Quantisation{row.mode, row.bits, row.group};
  }
  return std::nullopt;
}

}  // namespace ft::format
