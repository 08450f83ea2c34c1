#include "models/synthetic/model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "format/half.h"
#include "models/synthetic/draft.h"
#include "models/synthetic/pool.h"

namespace ft {
namespace {

using format::TensorSpec;
using format::TensorView;

constexpr std::string_view kPrefix = "synth:";
constexpr const char* kExample = "; example: synth:qwen3.5-4b?bits=4&group=64&seed=1";

Error wrong_tensor(std::string_view name, const std::string& why) {
  return Error{Code::kInvalid, fmt::format("{}: {}{}", name, why, kExample)};
}

Result<std::uint64_t> read_number(std::string_view name, std::string_view key, std::string_view text,
                                  std::initializer_list<std::uint64_t> allowed, std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = failed == std::errc() && end == text.data() + text.size();
  const bool listed = std::find(allowed.begin(), allowed.end(), value) != allowed.end();
  if (whole && (allowed.size() > 0 ? listed : value <= most)) return value;
  return wrong_tensor(
      name, allowed.size() > 0
                ? fmt::format("{}: expected one of {}, found '{}'", key, fmt::join(allowed, ", "), text)
                : fmt::format("{}: expected a number up to {}, found '{}'", key, most, text));
}

Status read_option(std::string_view name, std::string_view key, std::string_view text, SynthOptions& out) {
  constexpr std::uint64_t kMax = ~std::uint64_t{0};
  if (key == "bits") {
    if (!set_width(text, out)) {
      return wrong_tensor(
          name, fmt::format("bits: expected one of {}, found '{}'", fmt::join(kSynthWidths, ", "), text));
    }
  } else if (key == "group") {
    FT_ASSIGN(const std::uint64_t group, read_number(name, key, text, {32, 64, 128}, kMax));
    out.group = static_cast<int>(group);
  } else if (key == "seed") {
    FT_ASSIGN(out.seed, read_number(name, key, text, {}, kMax));
  } else if (key == "mtp") {
    FT_ASSIGN(const std::uint64_t mtp, read_number(name, key, text, {0, 1}, 1));
    if (mtp != 0 && !has_head(out.shape))
      return wrong_tensor(name, "mtp: the family has no MTP head; leave it out");
    out.mtp = mtp != 0;
  } else if (key == "tied") {
    FT_ASSIGN(const std::uint64_t tied, read_number(name, key, text, {0, 1}, 1));
    out.shape.tied = tied != 0;
  } else if (key == "layers") {
    FT_ASSIGN(const std::uint64_t layers, read_number(name, key, text, {}, 512));
    out.shape.layers = std::max(1, static_cast<int>(layers));
  } else if (key == "vocabulary") {
    FT_ASSIGN(const std::uint64_t words, read_number(name, key, text, {}, 1 << 20));
    out.shape.vocabulary = std::max(16, static_cast<int>(words));
  } else {
    return wrong_tensor(
        name,
        fmt::format("unknown key '{}'; the keys are bits, group, seed, mtp, tied, layers, vocabulary", key));
  }
  return {};
}

/// The bytes of one tensor, as views of the entries of specs_of.
class TensorMaker {
 public:
  TensorMaker(const SynthOptions& options, std::string file, SynthPool& pool)
      : options_(options), file_(std::move(file)), pool_(pool) {}

  void add(const SynthTensor& tensor, std::vector<TensorView>& out) {
    const std::vector<TensorSpec> specs = specs_of(tensor, options_);
    if (quantised(tensor, options_.bits) && options_.mode != format::QuantMode::kAffine) {
      const auto groups = static_cast<std::size_t>(bytes_of(specs[1]));
      std::byte* scales = pool_.bytes(groups);
      std::memset(scales, scale_byte(tensor, options_.mode), groups);
      put(specs[0], pool_.codes(static_cast<std::size_t>(bytes_of(specs[0])), tensor.module), out);
      put(specs[1], scales, out);
      return;
    }
    if (quantised(tensor, options_.bits)) {
      const auto levels = static_cast<float>((1 << options_.bits) - 1);
      const auto groups = static_cast<std::size_t>(tensor.rows * tensor.cols / options_.group);
      const auto halves = pool_.scales(code_step(tensor, options_.bits), levels, groups);
      const auto codes = static_cast<std::size_t>(bytes_of(specs[0]));
      put(specs[0], pool_.codes(codes, tensor.module), out);
      put(specs[1], halves.scales, out);
      put(specs[2], halves.biases, out);
      return;
    }
    put(specs[0], plain(tensor, specs[0]), out);
  }

 private:
  void put(const TensorSpec& spec, const std::byte* data, std::vector<TensorView>& out) const {
    const std::span<const std::byte> bytes(data, static_cast<std::size_t>(bytes_of(spec)));
    out.push_back({spec.name, spec.dtype, spec.shape, bytes, file_});
  }

  const std::byte* plain(const SynthTensor& tensor, const TensorSpec& spec) {
    const auto count = static_cast<std::size_t>(tensor.rows * tensor.cols);
    if (tensor.kind == SynthTensor::Kind::kMatrix || tensor.kind == SynthTensor::Kind::kPlainMatrix) {
      const double deviation = tensor.scale / std::sqrt(static_cast<double>(tensor.cols));
      return pool_.values(static_cast<float>(deviation), count, tensor.module);
    }
    Random random(options_.seed, spec.name);
    std::byte* data = pool_.bytes(static_cast<std::size_t>(bytes_of(spec)));
    for (std::size_t i = 0; i < count; ++i) {
      const float value = element(tensor, random);
      const std::uint16_t half = format::float_to_bf16(value);
      const bool wide = spec.dtype == format::DType::kF32;
      std::memcpy(data + i * (wide ? 4 : 2), wide ? static_cast<const void*>(&value) : &half, wide ? 4 : 2);
    }
    return data;
  }

  const SynthOptions& options_;
  std::string file_;
  SynthPool& pool_;
};

Result<format::Checkpoint> make_checkpoint(const std::string& name, const SynthOptions& options,
                                           std::vector<SynthTensor> all) {
  auto pool = std::make_shared<SynthPool>(options.seed);
  TensorMaker maker(options, name + "/memory", *pool);
  // The largest one first, as the pool requires.
  std::ranges::stable_sort(all, std::greater<>(), [](const SynthTensor& t) { return t.rows * t.cols; });
  std::vector<TensorView> tensors;
  for (const SynthTensor& tensor : all) maker.add(tensor, tensors);
  return format::Checkpoint::of_memory(name, std::move(tensors), "mlx", std::move(pool));
}

/// The part of a name before its options.
std::string_view shape_of(std::string_view name) {
  name.remove_prefix(std::min(kPrefix.size(), name.size()));
  return name.substr(0, name.find('?'));
}

/// Passes each key and value after the '?' on.
template <class Read>
Status read_options(std::string_view name, const Read& read) {
  std::string_view rest = name.substr(std::min(name.find('?'), name.size()));
  rest.remove_prefix(std::min<std::size_t>(1, rest.size()));
  while (!rest.empty()) {
    const std::string_view option = rest.substr(0, rest.find('&'));
    const std::size_t equals = option.find('=');
    if (equals == std::string_view::npos)
      return wrong_tensor(name, fmt::format("expected key=value, found '{}'", option));
    FT_TRY(read(option.substr(0, equals), option.substr(equals + 1)));
    rest.remove_prefix(std::min(option.size() + 1, rest.size()));
  }
  return {};
}

/// The options of a drafter's name.
Result<SynthOptions> read_draft_name(std::string_view name, const SyntheticDraft* draft) {
  if (draft == nullptr || shape_of(name) != draft->name) {
    const std::string others = draft == nullptr ? "this kind of drafter has no synthetic one; give a folder"
                                                : fmt::format("expected synth:{}?bits=4", draft->name);
    return Error{Code::kInvalid, fmt::format("{}: {}", name, others)};
  }
  SynthOptions options;
  options.bits = 16, options.mtp = false;
  FT_TRY(read_options(name, [&](std::string_view key, std::string_view text) -> Status {
    if (key == "bits" || key == "group" || key == "seed") return read_option(name, key, text, options);
    return Error{Code::kInvalid,
                 fmt::format("{}: unknown key '{}'; the keys are bits, group, seed", name, key)};
  }));
  return options;
}

}  // namespace

bool is_synth_name(std::string_view name) { return name.starts_with(kPrefix); }

Result<SynthOptions> read_synth_name(std::string_view name) {
  SynthOptions options;
  Result<Shape> shape = find_shape(shape_of(name));
  if (!shape.ok()) return wrong_tensor(name, shape.error().message);
  options.shape = *shape;
  options.mtp = has_head(*shape);
  FT_TRY(read_options(name, [&](std::string_view key, std::string_view text) {
    return read_option(name, key, text, options);
  }));
  FT_TRY(check_groups(options));
  return options;
}

Result<Model> make_synth_model(const std::string& name, const LoadOptions& options) {
  FT_ASSIGN(const SynthOptions synth, read_synth_name(name));
  FT_ASSIGN(const format::ConfigFiles files, format::ConfigFiles::parse(config_json(synth), "", "", name));
  std::vector<SynthTensor> tensors = target_tensors(synth.shape);
  if (synth.mtp) {
    for (SynthTensor& tensor : head_tensors(synth.shape)) tensors.push_back(std::move(tensor));
  }
  FT_ASSIGN(format::Checkpoint checkpoint, make_checkpoint(name, synth, std::move(tensors)));
  return make_model(name, files, std::move(checkpoint), options);
}

Result<format::ConfigFiles> synth_draft_config(const std::string& name, const SyntheticDraft* draft,
                                               const ModelFacts& target) {
  FT_ASSIGN(const SynthOptions options, read_draft_name(name, draft));
  nlohmann::ordered_json config = draft->config(target);
  add_quantisation(config, options);
  return format::ConfigFiles::parse(write_json(config, 2), "", "", name);
}

Result<format::Checkpoint> make_synth_draft(const std::string& name, const SyntheticDraft& draft,
                                            const ModelFacts& target) {
  FT_ASSIGN(const SynthOptions options, read_draft_name(name, &draft));
  std::vector<SynthTensor> tensors = draft.tensors(target);
  FT_TRY(check_groups(tensors, options));
  return make_checkpoint(name, options, std::move(tensors));
}

}  // namespace ft
