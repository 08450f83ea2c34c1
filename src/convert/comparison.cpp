#include "convert/comparison.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "format/checkpoint.h"

namespace ft::convert {
namespace {

using How = OutputTensor::How;
using format::TensorView;

constexpr std::int64_t kBlockElements = std::int64_t{1} << 18;

/// The written matrix, if its parts have the planned shapes.
Result<format::MatrixPointer> written_matrix(const OutputTensor& tensor, const format::Checkpoint& made) {
  const TensorView* parts[3] = {};
  std::size_t i = 0;
  for (const format::TensorSpec& spec : tensor.specs()) {
    parts[i] = made.find(spec.name);
    if (parts[i] == nullptr || parts[i]->shape != spec.shape || parts[i]->dtype != spec.dtype) {
      return format::tensor_error(
          Code::kCorrupt, made.directory(), spec.name,
          std::string(format::dtype_name(spec.dtype)) + " " + format::shape_text(spec.shape),
          parts[i] == nullptr ? "none" : format::shape_text(parts[i]->shape),
          "write the folder again with --force");
    }
    ++i;
  }
  if (!tensor.quantised()) return format::plain_matrix(*parts[0]);
  format::StoredMatrix matrix{tensor.name,          format::DType::kU32, true,
                              tensor.q.bits,        tensor.q.group,      tensor.matrix->rows(),
                              tensor.matrix->cols()};
  matrix.data = parts[0]->bytes.data(), matrix.scales = parts[1]->bytes.data();
  matrix.biases = parts[2] == nullptr ? nullptr : parts[2]->bytes.data();
  matrix.scale_dtype = tensor.type, matrix.mode = tensor.q.mode;
  return format::mlx_matrix(matrix);
}

/// Sums of one matrix by blocks of rows, added in order of the blocks.
class ErrorJob {
 public:
  ErrorJob(const format::MatrixSource& wanted, const format::MatrixSource& found)
      : wanted_(wanted), found_(found), block_(std::max<std::int64_t>(1, kBlockElements / wanted.cols())) {
    sums_.resize(static_cast<std::size_t>((wanted.rows() + block_ - 1) / block_));
  }

  void operator()(int, int) {
    std::vector<float> a(static_cast<std::size_t>(block_ * wanted_.cols())), b(a.size());
    for (std::size_t i = next_.fetch_add(1); i < sums_.size(); i = next_.fetch_add(1)) {
      const std::int64_t first = static_cast<std::int64_t>(i) * block_;
      const std::int64_t rows = std::min(block_, wanted_.rows() - first);
      wanted_.read(first, rows, a.data());
      found_.read(first, rows, b.data());
      Sums& sums = sums_[i];
      for (std::size_t k = 0; k < static_cast<std::size_t>(rows * wanted_.cols()); ++k) {
        const double w = static_cast<double>(a[k]), v = static_cast<double>(b[k]);
        sums.ww += w * w, sums.vv += v * v, sums.wv += w * v, sums.error += (v - w) * (v - w);
      }
    }
  }

  void result(TensorError& error) const {
    Sums all;
    for (const Sums& sums : sums_) {
      all.ww += sums.ww, all.vv += sums.vv, all.wv += sums.wv, all.error += sums.error;
    }
    if (all.ww == 0) return;  // zeros stay zeros up to the smallest scale
    error.cosine = all.vv == 0 ? 0 : all.wv / std::sqrt(all.ww * all.vv);
    error.relative = std::sqrt(all.error / all.ww);
  }

 private:
  struct Sums {
    double ww = 0, vv = 0, wv = 0, error = 0;
  };
  const format::MatrixSource& wanted_;
  const format::MatrixSource& found_;
  std::int64_t block_;
  std::vector<Sums> sums_;
  std::atomic<std::size_t> next_{0};
};

bool same_bytes(const TensorView& a, const TensorView* b) {
  return b != nullptr && a.bytes.size() == b->bytes.size() &&
         std::memcmp(a.bytes.data(), b->bytes.data(), a.bytes.size()) == 0;
}

}  // namespace

Result<Comparison> compare(const Plan& plan, const std::string& directory, int threads,
                           const ProgressCall& progress) {
  FT_ASSIGN(const format::Checkpoint made, format::Checkpoint::open(directory));
  ThreadPool pool(threads);
  Comparison result;
  std::uint64_t done = 0;
  for (const OutputFile& file : plan.files) {
    for (const OutputTensor& tensor : file.tensors) {
      done += tensor.source_bytes;
      if (progress && !progress(done, plan.source_bytes))
        return Error{Code::kCancelled, "the comparison was stopped"};
      if (tensor.how == How::kCopy) {
        const bool same = same_bytes(*tensor.stored, made.find(tensor.name));
        result.kept += same ? 1 : 0;
        if (!same) result.changed.push_back(tensor.name);
        continue;
      }
      FT_ASSIGN(const format::MatrixPointer matrix, written_matrix(tensor, made));
      if (tensor.how == How::kAddOne) continue;
      ErrorJob job(*tensor.matrix, *matrix);
      pool.run(job);
      TensorError error{tensor.name, tensor.q};
      job.result(error);
      if (tensor.quantised()) result.quantised.push_back(std::move(error));
      made.drop_pages();
    }
  }
  return result;
}

}  // namespace ft::convert
