#include "cli/commands/bit_calibration.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <map>

#include "backends/registry.h"
#include "base/text_layout.h"
#include "cli/commands/model_texts.h"
#include "convert/budget.h"
#include "format/affine.h"
#include "models/model.h"
#include "text/tokenizer.h"
#include "verify/text_quality.h"

namespace ft::cli {
namespace {

using convert::OutputTensor;
using convert::SourceTensor;
using convert::TensorKind;
using format::DType;
using format::Quantisation;
using format::QuantMode;
using format::TensorView;

constexpr std::int64_t kTextWindow = 256;  // tokens
constexpr int kProbeBits = 3;              // coarse enough to be seen, fine enough to be additive
constexpr std::int64_t kErrorRows = 256;   // rows from which the error of a width is estimated

/// Modules that share tensors of the source, so they are measured together.
struct Group {
  std::vector<std::string> modules;          // MLX's names
  std::vector<const SourceTensor*> tensors;  // of the source
  std::vector<const OutputTensor*> outputs;  // of the plan
  convert::BitCandidate candidate;
};

std::string module_of(const std::string& weight) {
  constexpr std::string_view kEnd = ".weight";
  return weight.ends_with(kEnd) ? weight.substr(0, weight.size() - kEnd.size()) : weight;
}

/// The modules that a tensor of the source becomes.
std::vector<std::string> modules_of(const ConversionNames& all, const std::string& stored) {
  const std::string canonical = convert::canonical_name(stored);
  convert::ExpertPart part;
  if (!convert::read_expert_part(all, canonical, part)) return {module_of(convert::mlx_name(all, canonical))};
  std::vector<std::string> names;
  if (part.projection == "gate_up_proj") {
    for (const char* half : {"gate_proj", "up_proj"})
      names.push_back(module_of(convert::mlx_name(all, convert::expert_name(all, part, half))));
  } else {
    names.push_back(module_of(convert::mlx_name(all, convert::expert_name(all, part, part.projection))));
  }
  return names;
}

bool may_choose(const OutputTensor& tensor, const ConversionNames& all) {
  if (tensor.how != OutputTensor::How::kEncode) return false;
  const TensorKind kind = convert::kind_of(all, convert::canonical_name(tensor.name), tensor.shape.size());
  return kind == TensorKind::kLinear || kind == TensorKind::kEmbedding || kind == TensorKind::kExperts;
}

std::vector<Group> find_groups(const convert::Source& source, const convert::Plan& plan) {
  std::map<std::string, const OutputTensor*> outputs;
  for (const convert::OutputFile& file : plan.files) {
    if (file.name == convert::kHeadFile) continue;
    for (const OutputTensor& tensor : file.tensors) {
      if (may_choose(tensor, *plan.names)) outputs[tensor.module()] = &tensor;
    }
  }
  std::vector<Group> groups;
  std::map<std::string, std::size_t> group_of;  // by module
  for (const SourceTensor& tensor : source.tensors) {
    const std::vector<std::string> modules = modules_of(*plan.names, tensor.name);
    if (tensor.matrix == nullptr || !outputs.contains(modules.front())) continue;
    const auto known = group_of.find(modules.front());
    if (known != group_of.end()) {
      groups[known->second].tensors.push_back(&tensor);
      continue;
    }
    Group group;
    group.tensors.push_back(&tensor);
    for (const std::string& module : modules) {
      group_of[module] = groups.size();
      group.modules.push_back(module), group.outputs.push_back(outputs.at(module));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

/// The values of some rows after a round trip through `q`, in place; the sums of error and of squares.
struct Sums {
  double error = 0, squares = 0;
};
void round_trip(float* values, std::int64_t rows, std::int64_t cols, const Quantisation& q, DType type,
                Sums& sums) {
  const std::span<const float> all(values, static_cast<std::size_t>(rows * cols));
  const format::AffineMatrix codes = format::quantise_affine(all, rows, cols, q.bits, q.group, type);
  format::StoredMatrix stored;
  stored.dtype = DType::kU32, stored.quantised = true, stored.bits = q.bits, stored.group = q.group;
  stored.rows = rows, stored.cols = cols, stored.scale_dtype = type;
  stored.data = reinterpret_cast<const std::byte*>(codes.words.data());
  stored.scales = codes.scales.data(), stored.biases = codes.biases.data();
  std::vector<float> back(all.size());
  format::dequantise_rows(stored, 0, rows, back.data());
  for (std::size_t i = 0; i < back.size(); ++i) {
    const double w = static_cast<double>(values[i]), d = static_cast<double>(back[i]) - w;
    sums.error += d * d, sums.squares += w * w;
    values[i] = back[i];
  }
}

double relative_error(const Group& group, const Quantisation& q) {
  Sums sums;
  for (const SourceTensor* tensor : group.tensors) {
    const format::MatrixSource& matrix = *tensor->matrix;
    const std::int64_t rows = std::min(matrix.rows(), kErrorRows / std::ssize(group.tensors) + 1);
    const std::int64_t apart = matrix.rows() / rows;
    std::vector<float> row(static_cast<std::size_t>(matrix.cols()));
    for (std::int64_t i = 0; i < rows; ++i) {
      matrix.read(i * apart, 1, row.data());
      round_trip(row.data(), 1, matrix.cols(), q, matrix.type(), sums);
    }
  }
  return sums.squares > 0 ? std::sqrt(sums.error / sums.squares) : 0;
}

std::vector<convert::Width> widths_of(const Group& group) {
  std::vector<convert::Width> widths;
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    convert::Width width;
    width.q = {QuantMode::kAffine, bits, group.outputs.front()->q.group};
    for (const OutputTensor* output : group.outputs) {
      OutputTensor resized = *output;
      resized.q = width.q;
      width.bytes += resized.bytes();
    }
    width.error = relative_error(group, width.q);
    widths.push_back(width);
  }
  return widths;
}

/// The model of the source with the matrices of one group quantised, or with none.
class Probe {
 public:
  Probe(const convert::Source& source, const format::ConfigFiles& files) : source_(source), files_(files) {
    for (const TensorView& tensor : source.checkpoint->tensors()) {
      if (!format::is_mtp_name(tensor.name)) tensors_.push_back(tensor);
    }
  }

  Result<Model> whole() const { return make({}, nullptr); }

  Result<Model> with(const Group& group, int bits) const {
    auto values = std::make_shared<std::map<std::string, std::vector<float>>>();
    for (const SourceTensor* tensor : group.tensors) {
      const format::MatrixSource& matrix = *tensor->matrix;
      std::vector<float>& all = (*values)[tensor->name];
      all.resize(static_cast<std::size_t>(matrix.rows() * matrix.cols()));
      matrix.read(0, matrix.rows(), all.data());
      Sums ignored;
      round_trip(all.data(), matrix.rows(), matrix.cols(),
                 {QuantMode::kAffine, bits, group.outputs.front()->q.group}, matrix.type(), ignored);
    }
    return make(*values, values);
  }

 private:
  Result<Model> make(const std::map<std::string, std::vector<float>>& changed,
                     std::shared_ptr<const void> owner) const {
    std::vector<TensorView> tensors = tensors_;
    for (TensorView& tensor : tensors) {
      const auto found = changed.find(tensor.name);
      if (found == changed.end()) continue;
      tensor.dtype = DType::kF32, tensor.bytes = std::as_bytes(std::span(found->second));
    }
    FT_ASSIGN(format::Checkpoint checkpoint,
              format::Checkpoint::of_memory(source_.directory, std::move(tensors),
                                            source_.checkpoint->metadata_format(), std::move(owner)));
    return make_model(source_.directory, files_, std::move(checkpoint), {});
  }

  const convert::Source& source_;
  const format::ConfigFiles& files_;
  std::vector<TensorView> tensors_;
};

std::string escaped(const std::string& module) {
  std::string text;
  for (const char c : module) text += c == '.' ? std::string("\\.") : std::string(1, c);
  return text;
}

CalibratedRecipe write_recipe(const convert::Recipe& base, const std::vector<Group>& groups,
                              const std::vector<std::size_t>& chosen) {
  CalibratedRecipe made{base, {}, {}};
  made.toml = fmt::format("bits = {}\ngroup-size = {}\n", base.base.bits, base.base.group);
  std::vector<convert::Rule> rules;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Quantisation q = groups[i].candidate.widths[chosen[i]].q;
    for (const std::string& module : groups[i].modules) {
      const std::string pattern = "^" + escaped(module) + "$";
      rules.push_back({pattern, std::regex(pattern), q});
      made.toml +=
          fmt::format("[[rule]]\nmatch = '{}'\nbits = {}\ngroup-size = {}\n", pattern, q.bits, q.group);
    }
  }
  made.recipe.rules.insert(made.recipe.rules.begin(), rules.begin(), rules.end());
  made.recipe.name = "calibrated";
  return made;
}

Status check(const convert::Source& source, const convert::Recipe& base) {
  if (source.quantised) {
    return Error{Code::kUnsupported, fmt::format("{} does not run as it is, so nothing can be measured; "
                                                 "calibrate on the bf16, f16 or f32 original",
                                                 source.directory)};
  }
  if (base.base.mode != QuantMode::kAffine)
    return Error{Code::kInvalid, "--calibrate chooses among affine widths; leave --format at affine"};
  return {};
}

Result<TextMeter> make_meter(const convert::Source& source, const BitCalibration& options) {
  FT_ASSIGN(const Tokenizer tokenizer, read_tokenizer(source.directory));
  FT_ASSIGN(const std::vector<std::int32_t> ids, tokenizer.encode(options.text, false));
  constexpr std::size_t kFewest = 64;
  if (ids.size() < kFewest) {
    return Error{Code::kInvalid,
                 fmt::format("the text of --calibrate has {} tokens; give {} or more", ids.size(), kFewest)};
  }
  return TextMeter(ids, options.tokens, kTextWindow);
}

/// Bytes for all groups together.
std::uint64_t budget_of(const std::vector<Group>& groups, const BitCalibration& options) {
  std::uint64_t base = 0;
  double weights = 0;
  for (const Group& group : groups) {
    for (const OutputTensor* output : group.outputs) {
      base += output->bytes();
      weights += static_cast<double>(convert::rows_of(output->shape) * output->shape.back());
    }
  }
  return options.average_bits > 0 ? static_cast<std::uint64_t>(weights * options.average_bits / 8) : base;
}

}  // namespace

Result<CalibratedRecipe> calibrate_bits(const convert::Source& source, const convert::Recipe& base,
                                        const BitCalibration& options,
                                        const std::function<bool(std::int64_t, std::int64_t)>& progress) {
  FT_TRY(check(source, base));
  FT_ASSIGN(const convert::Plan plan, convert::make_plan(source, base));
  FT_ASSIGN(TextMeter meter, make_meter(source, options));
  FT_ASSIGN(const format::ConfigFiles files, format::ConfigFiles::read(source.directory));
  BackendOptions backend_options;
  backend_options.threads = options.threads;
  backend_options.settings = {{"activations", 16}};  // rounded activations would hide what rounded weights do
  FT_ASSIGN(const std::unique_ptr<Backend> backend, make_backend(backend_options));
  const Probe probe(source, files);
  FT_ASSIGN(const Model whole, probe.whole());
  // While it lives, the backend packs only the matrices that a probe changes: the model is loaded once.
  DecoderOptions small;
  small.context = kTextWindow;
  FT_ASSIGN(const std::unique_ptr<Decoder> kept, Decoder::make(*backend, whole, small));
  FT_ASSIGN(const TextQuality reference, meter.take_reference(*backend, whole));
  std::vector<Group> groups = find_groups(source, plan);
  std::vector<convert::BitCandidate> candidates;
  for (Group& group : groups) {
    if (progress && !progress(std::ssize(candidates), std::ssize(groups)))
      return Error{Code::kCancelled, "stopped; nothing was written"};
    group.candidate.widths = widths_of(group);
    FT_ASSIGN(const Model changed, probe.with(group, kProbeBits));
    FT_ASSIGN(const TextQuality found, meter.measure(*backend, changed));
    const double error = group.candidate.widths[1].error;  // of kProbeBits
    group.candidate.harm = error > 0 ? std::max(found.divergence, 0.0) / (error * error) : 0;
    candidates.push_back(group.candidate);
  }
  const std::vector<std::size_t> chosen = convert::spend(candidates, budget_of(groups, options));
  CalibratedRecipe made = write_recipe(base, groups, chosen);
  made.note =
      fmt::format("{} matrices were measured alone at {} bits on {} tokens (perplexity of the source {:.3f})",
                  groups.size(), kProbeBits, meter.tokens(), reference.perplexity);
  return made;
}

}  // namespace ft::cli
