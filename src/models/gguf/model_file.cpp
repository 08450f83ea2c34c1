#include "models/gguf/model_file.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "base/system.h"
#include "format/gguf/blocks.h"
#include "format/gguf/files.h"
#include "format/gguf/tokenizer.h"
#include "format/matrix_source.h"
#include "format/out_of_memory.h"
#include "models/gguf/architecture.h"

namespace ft::gguf {
namespace {

using format::DType;
using format::GgufTensor;
using format::MatrixPointer;
using format::TensorView;
using nlohmann::json;

using Vectors = std::deque<std::vector<float>>;  // decoded; their addresses stay

class Reader {
 public:
  Reader(const format::GgufFiles& files, const Architecture& architecture, bool float32_scales,
         Vectors& vectors)
      : files_(files), architecture_(architecture), float32_scales_(float32_scales), vectors_(vectors) {}

  Result<std::vector<TensorView>> run() {
    // Vectors are decoded here. All are asked for at once, so that they do not wait for the disk one by one,
    // or until another thread has read the whole file.
    for (const GgufTensor& tensor : files_.contents.tensors) {
      if (tensor.shape.size() < 2) read_ahead(tensor.bytes.data(), tensor.bytes.size());
    }
    std::vector<TensorView> list;
    for (const GgufTensor& tensor : files_.contents.tensors) {
      if (tensor.name.starts_with("rope_freqs")) continue;
      FT_ASSIGN(const std::vector<GgufTensor> parts, parts_of(tensor));
      for (const GgufTensor& part : parts) FT_TRY(add(part, list));
    }
    return list;
  }

 private:
  Status add(const GgufTensor& tensor, std::vector<TensorView>& list) {
    const std::optional<Place> place = architecture_.place(tensor);
    if (!place) {
      return format::tensor_error(Code::kUnsupported, path_of(tensor), tensor.name,
                                  "a tensor of " + files_.contents.text("general.architecture", ""),
                                  "another", "use a text-only file of this model");
    }
    if (place->name.empty()) return {};
    FT_ASSIGN(TensorView view, read(tensor, *place));
    list.push_back(std::move(view));
    return {};
  }

  /// The tensor, or its pieces under their own names: rows are whole bytes in every type.
  Result<std::vector<GgufTensor>> parts_of(const GgufTensor& tensor) const {
    const std::vector<Piece> pieces = architecture_.pieces(tensor);
    if (pieces.empty()) return std::vector{tensor};
    std::int64_t rows = 0;
    for (const Piece& piece : pieces) rows += piece.rows;
    if (tensor.shape.empty() || tensor.shape.front() != rows) {
      return format::tensor_error(Code::kCorrupt, path_of(tensor), tensor.name,
                                  std::to_string(rows) + " rows", format::shape_text(tensor.shape),
                                  "download the file again");
    }
    const std::string block = tensor.name.substr(0, tensor.name.find('.', tensor.name.find('.') + 1) + 1);
    const std::size_t row_bytes = tensor.bytes.size() / static_cast<std::size_t>(rows);
    std::vector<GgufTensor> parts;
    std::size_t first = 0;
    for (const Piece& piece : pieces) {
      GgufTensor part = tensor;
      part.name = block + std::string(piece.rest), part.shape.front() = piece.rows;
      const std::size_t bytes = row_bytes * static_cast<std::size_t>(piece.rows);
      part.bytes = tensor.bytes.subspan(first, bytes);
      first += bytes;
      parts.push_back(std::move(part));
    }
    return parts;
  }

  const std::string& path_of(const GgufTensor& tensor) const {
    return files_.files[static_cast<std::size_t>(tensor.part)].path();
  }

  Result<TensorView> read(const GgufTensor& tensor, const Place& place) {
    TensorView view;
    view.name = place.name, view.file = path_of(tensor), view.bytes = tensor.bytes;
    view.shape = architecture_.shape(place, tensor.shape);
    const bool vector = tensor.shape.size() < 2;
    const std::int64_t rows = vector ? 1 : format::rows_of(tensor.shape);
    const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
    MatrixPointer matrix = format::gguf_matrix(tensor.type, rows, cols, tensor.bytes.data(), float32_scales_);
    if (place.order != nullptr) {
      const bool columns = vector || place.ordered == Ordered::kColumns;
      const std::int64_t side = (columns ? cols : rows) - place.first;
      const std::int64_t parts = std::ssize(*place.order);
      if (side <= 0 || side % parts != 0 || (columns && place.first != 0)) {
        return format::tensor_error(Code::kCorrupt, view.file, tensor.name,
                                    std::to_string(parts) + " parts of equal size",
                                    format::shape_text(tensor.shape), "download the file again");
      }
      matrix = columns ? format::columns_in_order(std::move(matrix), side / parts, *place.order)
                       : format::rows_in_order(std::move(matrix), place.first, side / parts, *place.order);
    }
    if (vector || place.in_memory) return decoded(std::move(view), *matrix, place);
    view.dtype = matrix->value_type();
    const bool as_stored = matrix->plain() && place.order == nullptr;
    if (!as_stored) view.matrix = std::move(matrix);
    return view;
  }

  TensorView decoded(TensorView view, const format::MatrixSource& matrix, const Place& place) {
    std::vector<float>& values =
        vectors_.emplace_back(static_cast<std::size_t>(matrix.rows() * matrix.cols()));
    matrix.read(0, matrix.rows(), values.data());
    for (float& value : values) value = place.decay ? std::log(-value) : value;
    view.dtype = DType::kF32, view.bytes = std::as_bytes(std::span(values));
    return view;
  }

  const format::GgufFiles& files_;
  const Architecture& architecture_;
  bool float32_scales_;
  Vectors& vectors_;
};

std::string types_text(const format::GgufFile& file) {
  std::map<std::string, std::uint64_t> bytes;
  for (const GgufTensor& tensor : file.tensors)
    bytes[format::gguf_type_name(tensor.type)] += tensor.bytes.size();
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return most == bytes.end() ? "GGUF" : "GGUF, mostly " + most->first;
}

/// Sampling defaults and the tokens that end an answer.
json generation_json(const format::GgufFile& file) {
  json generation = json::object();
  const std::pair<const char*, const char*> kKeys[] = {
      {"general.sampling.temp", "temperature"},
      {"general.sampling.top_p", "top_p"},
      {"general.sampling.min_p", "min_p"},
      {"general.sampling.penalty_repeat", "repetition_penalty"}};
  for (const auto& [key, own] : kKeys) {
    if (file.find(key) != nullptr) generation[own] = file.real(key, 0);
  }
  if (file.find("general.sampling.top_k") != nullptr)
    generation["top_k"] = file.whole("general.sampling.top_k", 0);
  if (!generation.empty()) generation["do_sample"] = true;
  const std::vector<std::int64_t> ends = format::end_tokens(file);
  if (!ends.empty()) generation["eos_token_id"] = ends;
  return generation;
}

Result<ModelFile> open(const std::string& path, bool float32_scales) {
  auto files = std::make_shared<format::GgufFiles>();
  FT_ASSIGN(*files, format::open_gguf(path));
  const format::GgufFile& contents = files->contents;
  FT_ASSIGN(const std::unique_ptr<Architecture> architecture, find_architecture(contents, path));
  auto vectors = std::make_shared<Vectors>();
  FT_ASSIGN(std::vector<TensorView> tensors, Reader(*files, *architecture, float32_scales, *vectors).run());
  ModelFile model;
  model.types = types_text(contents);
  FT_ASSIGN(model.config, format::ConfigFiles::parse(write_json(architecture->config()),
                                                     write_json(generation_json(contents)), "", path));
  std::vector<format::Checkpoint::OpenFile> opened;
  for (std::size_t i = 0; i < files->files.size(); ++i)
    opened.push_back({std::move(files->files[i]), files->header_bytes[i]});
  FT_ASSIGN(model.checkpoint, format::Checkpoint::of_files(path, std::move(opened), std::move(tensors),
                                                           "gguf", std::move(vectors)));
  return model;
}

}  // namespace

Result<ModelFile> open_model(const std::string& path, bool float32_scales) {
  return format::with_memory_guard("open the model", path, [&] { return open(path, float32_scales); });
}

Result<std::map<std::string, std::string>> read_texts(const std::string& path) {
  return format::with_memory_guard("read its tokenizer", path,
                                   [&]() -> Result<std::map<std::string, std::string>> {
                                     FT_ASSIGN(const format::GgufFiles files, format::open_gguf(path));
                                     return format::tokenizer_files(files.contents, path);
                                   });
}

}  // namespace ft::gguf
