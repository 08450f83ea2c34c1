#include "convert/plan.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "base/checksum.h"

namespace ft::convert {
namespace {

using format::DType;
using format::QuantMode;
using format::TensorSpec;
using How = OutputTensor::How;

constexpr std::string_view kWeight = ".weight";

/// Embedding, layers by number, final norm, LM head, everything else.
std::tuple<int, std::int64_t, std::string> place_of(const std::string& name) {
  const std::string canonical = canonical_name(name);
  if (canonical.starts_with("embed_tokens")) return {0, 0, name};
  if (canonical.starts_with("layers.")) {
    std::int64_t layer = 0;
    std::from_chars(canonical.data() + std::string_view("layers.").size(),
                    canonical.data() + canonical.size(), layer);
    return {1, layer, name};
  }
  if (canonical.starts_with("norm.")) return {2, 0, name};
  return {canonical.starts_with("lm_head.") ? 3 : 4, 0, name};
}

/// Turns the source's tensors into the result's.
class Planner {
 public:
  Planner(const Source& source, const Recipe& recipe, const ConversionNames& names, std::uint64_t shard_bytes)
      : source_(source), recipe_(recipe), names_(names), shard_bytes_(shard_bytes) {}

  Result<Plan> run() {
    for (const SourceTensor& tensor : source_.tensors) FT_TRY(add(tensor));
    FT_TRY(add_stacked_experts());
    return arrange();
  }

 private:
  Error refuse(const SourceTensor& tensor, const std::string& expected, const std::string& next) const {
    return format::tensor_error(Code::kUnsupported, source_.directory, tensor.name, expected,
                                format::shape_text(tensor.shape), next);
  }

  Status add(const SourceTensor& tensor) {
    const std::string canonical = canonical_name(tensor.name);
    const TensorKind kind = kind_of(names_, canonical, tensor.shape.size());
    switch (kind) {
      case TensorKind::kVision:
        if (recipe_.vision == VisionTreatment::kDrop) return {};
        has_vision_ = true;
        return keep(tensor, tensor.name, target_);
      case TensorKind::kMtp:
        return add_head(tensor, canonical);
      case TensorKind::kShifted:
        return norm(tensor, mlx_name(names_, canonical), target_);
      case TensorKind::kConv:
        return conv(tensor, mlx_name(names_, canonical));
      case TensorKind::kExperts:
        return experts(tensor, canonical, TensorKind::kExperts, target_);
      case TensorKind::kAsStored:
        return keep(tensor, mlx_name(names_, canonical), target_);
      default:
        return matrix(tensor, mlx_name(names_, canonical), kind, target_);
    }
  }

  Status keep(const SourceTensor& tensor, std::string name, std::vector<OutputTensor>& to) {
    OutputTensor out{std::move(name), tensor.shape};
    if (tensor.stored != nullptr) {
      out.how = How::kCopy, out.stored = tensor.stored, out.type = tensor.stored->dtype;
      out.source_bytes = tensor.stored->bytes.size();
    } else {
      out.how = How::kDecode, out.matrix = tensor.matrix, out.type = tensor.matrix->type();
      out.source_bytes = out.bytes();
    }
    to.push_back(std::move(out));
    return {};
  }

  Status norm(const SourceTensor& tensor, std::string name, std::vector<OutputTensor>& to) {
    if (source_.shifted_norms) return keep(tensor, std::move(name), to);
    if (tensor.matrix == nullptr) return refuse(tensor, "a norm of floats", "download the model again");
    OutputTensor out{std::move(name), tensor.shape, How::kAddOne};
    out.type = DType::kF32, out.matrix = tensor.matrix, out.source_bytes = out.bytes();
    to.push_back(std::move(out));
    return {};
  }

  /// The bytes of [C,1,K] and [C,K,1] are the same.
  Status conv(const SourceTensor& tensor, std::string name) {
    FT_TRY(keep(tensor, std::move(name), target_));
    std::vector<std::int64_t>& shape = target_.back().shape;
    if (shape.size() == 3 && shape[1] == 1) std::swap(shape[1], shape[2]);
    return {};
  }

  /// The source's codes if MLX can read them, otherwise the nearest format.
  Status import(const SourceTensor& tensor, std::string name, std::vector<OutputTensor>& to) {
    const bool coded = tensor.matrix != nullptr && !tensor.matrix->plain() && name.ends_with(kWeight);
    if (!coded) return keep(tensor, std::move(name), to);
    const format::MatrixSource& matrix = *tensor.matrix;
    const std::int64_t elements = matrix.rows() * matrix.cols();
    OutputTensor out{std::move(name), tensor.shape, How::kMoveCodes};
    out.matrix = tensor.matrix, out.type = matrix.type();
    if (const std::optional<format::CodeFormat> codes = mlx_codes(matrix)) {
      out.q = codes->q, out.exact = codes->exact;
      if (codes->q.mode == QuantMode::kAffine) out.type = codes->scale_type;
      (codes->exact ? moved_ : rounded_) += elements;
    } else {
      out.exact = false;
      const auto nearest = matrix.nearest();
      const auto fitted = nearest ? fitting_group(*nearest, matrix.cols()) : std::nullopt;
      out.how = fitted ? How::kEncode : How::kDecode;
      if (fitted) out.q = *fitted;
      (fitted ? encoded_ : decoded_) += elements;
    }
    out.source_bytes = out.bytes();
    to.push_back(std::move(out));
    return {};
  }

  /// gpt-oss was trained with the codes of its experts: new codes of as many bits would only add error,
  /// unless a rule of the recipe names them.
  bool keeps_its_codes(const format::MatrixSource& matrix, const std::string& name, TensorKind kind) const {
    if (!names_.paired_experts || matrix.plain()) return false;
    const std::string module = name.substr(0, name.size() - kWeight.size());
    const auto named = [&](const Rule& rule) { return std::regex_search(module, rule.match); };
    if (std::ranges::any_of(recipe_.rules, named)) return false;
    const auto codes = mlx_codes(matrix);
    const auto chosen = choose_format(recipe_, module, kind, matrix.cols());
    return codes && chosen && chosen->bits >= codes->q.bits;
  }

  Status matrix(const SourceTensor& tensor, std::string name, TensorKind kind,
                std::vector<OutputTensor>& to) {
    if (recipe_.keeps_codes) return import(tensor, std::move(name), to);
    if (tensor.matrix == nullptr || !name.ends_with(kWeight)) return keep(tensor, std::move(name), to);
    if (keeps_its_codes(*tensor.matrix, name, kind)) return import(tensor, std::move(name), to);
    if (const auto codes = mlx_codes(*tensor.matrix); codes && codes->q.bits < 8 && !names_.paired_experts) {
      return Error{Code::kUnsupported,
                   source_.directory + ": " + tensor.name + " has codes of " + std::to_string(codes->q.bits) +
                       " bits; new ones would add as much error again: keep them with foretoken convert"};
    }
    OutputTensor out{std::move(name), tensor.shape};
    const auto chosen = choose_format(recipe_, out.module(), kind, tensor.matrix->cols());
    if (!chosen) return keep(tensor, std::move(out.name), to);
    out.how = How::kEncode, out.q = *chosen, out.matrix = tensor.matrix, out.type = tensor.matrix->type();
    out.source_bytes = static_cast<std::uint64_t>(tensor.matrix->rows() * tensor.matrix->cols()) *
                       format::dtype_bytes(out.type);
    to.push_back(std::move(out));
    return {};
  }

  Status add_head(const SourceTensor& tensor, const std::string& canonical) {
    ExpertPart part;
    const bool is_vector = tensor.shape.size() < 2;
    switch (recipe_.mtp) {
      case MtpHeadPrecision::kDrop:
        return {};
      case MtpHeadPrecision::kKeep:
        return keep(tensor, canonical, head_);
      default:
        break;
    }
    if (is_vector) return norm(tensor, canonical, head_);
    if (read_expert_part(names_, canonical, part)) {
      return experts(tensor, canonical, kind_in_head(), head_);
    }
    if (canonical == "mtp.fc.weight") return keep(tensor, canonical, head_);
    return matrix(tensor, canonical, kind_in_head(), head_);
  }

  /// Matrices of 8 bits, unless the head is treated like the target.
  TensorKind kind_in_head() const {
    return recipe_.mtp == MtpHeadPrecision::kSame ? TensorKind::kLinear : TensorKind::kSmall;
  }

  Status experts(const SourceTensor& tensor, const std::string& canonical, TensorKind kind,
                 std::vector<OutputTensor>& to) {
    ExpertPart part;
    read_expert_part(names_, canonical, part);
    const auto naming = [&](const std::string& name) {
      return &to == &head_ ? name : mlx_name(names_, name);
    };
    if (part.index >= 0) {
      const std::string name = naming(expert_name(names_, part, part.projection));
      stacks_[name].push_back({part.index, &tensor, kind, &to});
      return {};
    }
    if (tensor.matrix == nullptr || tensor.shape.size() != 3)
      return refuse(tensor, "experts of shape [experts, rows, columns]", "download the model again");
    SourceTensor piece = tensor;
    piece.stored = nullptr;
    if (part.projection != "gate_up_proj") {
      return matrix(piece, naming(expert_name(names_, part, part.projection)), kind, to);
    }
    const std::int64_t both = tensor.shape[1], rows = both / 2;
    piece.shape[1] = rows;
    for (const bool up : {false, true}) {
      piece.matrix = format::row_blocks(tensor.matrix, tensor.shape[0] * rows, rows, both, up ? rows : 0);
      FT_TRY(matrix(piece, naming(expert_name(names_, part, up ? "up_proj" : "gate_proj")), kind, to));
    }
    return {};
  }

  struct OneExpert {
    std::int64_t index;
    const SourceTensor* tensor;
    TensorKind kind;
    std::vector<OutputTensor>* to;
  };

  Status add_stacked_experts() {
    for (auto& [name, parts] : stacks_) {
      std::ranges::sort(parts, {}, &OneExpert::index);
      std::vector<format::MatrixPointer> matrices;
      for (const OneExpert& part : parts) {
        if (part.tensor->matrix == nullptr || part.tensor->shape != parts.front().tensor->shape ||
            part.index != static_cast<std::int64_t>(matrices.size())) {
          return refuse(*part.tensor, "experts 0, 1, 2 ... of equal shape", "download the model again");
        }
        matrices.push_back(part.tensor->matrix);
      }
      SourceTensor whole{name, parts.front().tensor->shape, nullptr, format::stacked(std::move(matrices))};
      whole.shape.insert(whole.shape.begin(), static_cast<std::int64_t>(parts.size()));
      FT_TRY(matrix(whole, name, parts.front().kind, *parts.front().to));
    }
    return {};
  }

  Result<Plan> arrange() {
    Plan plan;
    plan.names = &names_, plan.has_head = !head_.empty(), plan.has_vision = has_vision_;
    plan.head_norms_final = recipe_.mtp != MtpHeadPrecision::kKeep || source_.shifted_norms;
    const auto in_order = [](const OutputTensor& a, const OutputTensor& b) {
      return place_of(a.name) < place_of(b.name);
    };
    std::ranges::sort(target_, in_order);
    std::ranges::sort(head_, in_order);
    std::uint64_t filled = 0;
    for (OutputTensor& tensor : target_) {
      if (plan.files.empty() || filled + tensor.bytes() > shard_bytes_) plan.files.emplace_back(), filled = 0;
      filled += tensor.bytes();
      plan.files.back().tensors.push_back(std::move(tensor));
    }
    if (plan.files.empty())
      return Error{Code::kCorrupt, source_.directory + ": has no weights; download the model again"};
    name_shards(plan);
    if (plan.has_head) plan.files.push_back({kHeadFile, std::move(head_)});
    plan.base = recipe_.keeps_codes ? most_common_format(plan) : recipe_.base;
    add_notes(plan);
    count(plan);
    return plan;
  }

  static void name_shards(Plan& plan) {
    const auto padded = [](std::size_t number) {
      const std::string digits = std::to_string(number);
      return std::string(5 - std::min<std::size_t>(5, digits.size()), '0') + digits;
    };
    const std::size_t shards = plan.files.size();
    for (std::size_t i = 0; i < shards; ++i) {
      plan.files[i].name = shards == 1 ? "model.safetensors"
                                       : "model-" + padded(i + 1) + "-of-" + padded(shards) + ".safetensors";
    }
  }

  static format::Quantisation most_common_format(const Plan& plan) {
    std::map<std::string, std::pair<std::int64_t, format::Quantisation>> formats;
    for (const OutputFile& file : plan.files) {
      for (const OutputTensor& tensor : file.tensors) {
        if (!tensor.quantised()) continue;
        auto& [elements, q] = formats[format::quantisation_text(tensor.q)];
        elements += rows_of(tensor.shape) * tensor.shape.back(), q = tensor.q;
      }
    }
    const auto most =
        std::ranges::max_element(formats, {}, [](const auto& entry) { return entry.second.first; });
    return most == formats.end() ? format::Quantisation() : most->second.second;
  }

  void add_notes(Plan& plan) const {
    const auto note = [&](std::int64_t elements, const std::string& what) {
      if (elements > 0) plan.notes.push_back(std::to_string(elements) + " weights " + what);
    };
    note(moved_, "keep their codes, exactly");
    note(rounded_,
         "keep their codes, with scales or biases rounded to 16 bits (--exact keeps them as float32)");
    note(encoded_, "have new codes of 8 bits, because MLX has no format for theirs");
    note(decoded_, "are decoded to 16 bits, because MLX has no format for their codes");
  }

  void count(Plan& plan) const {
    std::string text = source_.fingerprint + "\n" + recipe_text(recipe_) + "\n";
    for (const OutputFile& file : plan.files) {
      for (const OutputTensor& tensor : file.tensors) {
        plan.source_bytes += tensor.source_bytes, plan.bytes += tensor.bytes();
        plan.parameters += tensor.shape.empty() ? 1 : rows_of(tensor.shape) * tensor.shape.back();
        text += file.name + ' ' + tensor.name + ' ' + std::to_string(static_cast<int>(tensor.how)) + ' ' +
                format::quantisation_text(tensor.q) + ' ' + std::string(format::dtype_name(tensor.type)) +
                format::shape_text(tensor.shape) + '\n';
      }
    }
    plan.fingerprint = fingerprint(text);
  }

  const Source& source_;
  const Recipe& recipe_;
  const ConversionNames& names_;
  std::uint64_t shard_bytes_;
  std::vector<OutputTensor> target_, head_;
  std::map<std::string, std::vector<OneExpert>> stacks_;  // by MLX name
  bool has_vision_ = false;
  std::int64_t moved_ = 0, rounded_ = 0, encoded_ = 0, decoded_ = 0;  // weights of a foreign format
};

}  // namespace

std::string OutputTensor::module() const {
  return name.ends_with(kWeight) ? name.substr(0, name.size() - kWeight.size()) : name;
}

std::vector<TensorSpec> OutputTensor::specs() const {
  if (!quantised()) return {{name, type, shape}};
  std::vector<std::int64_t> words = shape, groups = shape;
  words.back() = shape.back() * q.bits / 32, groups.back() = shape.back() / q.group;
  if (q.mode != QuantMode::kAffine) {
    return {{name, DType::kU32, words}, {module() + ".scales", DType::kU8, groups}};
  }
  return {
      {name, DType::kU32, words}, {module() + ".scales", type, groups}, {module() + ".biases", type, groups}};
}

std::uint64_t OutputTensor::bytes() const {
  std::uint64_t sum = 0;
  for (const TensorSpec& spec : specs()) {
    std::uint64_t bytes = format::dtype_bytes(spec.dtype);
    for (const std::int64_t side : spec.shape) bytes *= static_cast<std::uint64_t>(side);
    sum += bytes;
  }
  return sum;
}

Result<Plan> make_plan(const Source& source, const Recipe& recipe, std::uint64_t shard_bytes) {
  const auto type = source.config->find("model_type");
  const std::string named = type != source.config->end() && type->is_string() ? type->get<std::string>() : "";
  FT_ASSIGN(const ConversionNames* names, find_names(named, source.directory + "/config.json"));
  return Planner(source, recipe, *names, shard_bytes).run();
}

}  // namespace ft::convert
