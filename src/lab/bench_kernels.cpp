#include "lab/bench_kernels.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/quantile.h"
#include "base/text_layout.h"

namespace ft {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kEnoughBytes = 192e6;  // min size of all copies together, unless a cache is larger
constexpr int kCachedCopies = 32;       // copies of an instruction that works in the caches
constexpr int kMaxCopies = 256;

double last_cache_bytes() {
#ifdef _SC_LEVEL3_CACHE_SIZE
  return static_cast<double>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
#else
  return 0;
#endif
}

/// The arguments of a step: the first row is confirmed and the others are drafts, as in a round. More rows
/// than a round allows form a prompt.
class StepInput {
 public:
  /// `hidden`: the program's input, or null.
  StepInput(const KernelCase& kernel, std::unique_ptr<RowStore> hidden, std::int64_t width, int most_rows,
            std::int64_t context)
      : kernel_(kernel), context_(context), hidden_(std::move(hidden)) {
    Random random(1, "rows");
    std::vector<float> values(static_cast<std::size_t>(most_rows * width));
    for (float& value : values) value = 2 * random.uniform() - 1;
    if (hidden_) hidden_->write(0, values);
    blocks_.resize(static_cast<std::size_t>((context + most_rows) / kBlockRows + 1));
    for (std::size_t i = 0; i < blocks_.size(); ++i) blocks_[i] = static_cast<std::int32_t>(i);
    for (int row = 0; row < most_rows; ++row) {
      const auto words = static_cast<std::uint64_t>(std::max(1, kernel.sizes.vocabulary));
      tokens_.push_back(static_cast<std::int32_t>(random.next() % words));
      logit_rows_.push_back(row);
    }
  }
  int blocks() const { return static_cast<int>(blocks_.size()); }
  StepArgs args(int rows) {
    const auto count = static_cast<std::size_t>(rows);
    segment_ = {{blocks_, 0, 0, 0}, context_, rows, rows <= kMaxTapeRows ? 1 : rows};
    StepArgs args;
    args.tokens = std::span<const std::int32_t>(tokens_).first(count);
    if (hidden_) args.hidden = {hidden_.get(), std::span<const std::int32_t>(logit_rows_).first(count)};
    args.segments = {&segment_, 1};
    if (kernel_.instruction == "logits")
      args.logit_rows = std::span<const std::int32_t>(logit_rows_).first(count);
    return args;
  }

 private:
  const KernelCase& kernel_;
  std::int64_t context_;
  std::unique_ptr<RowStore> hidden_;
  std::vector<std::int32_t> blocks_, tokens_, logit_rows_;
  Segment segment_;
};

}  // namespace

int KernelBench::copies(const KernelCase& kernel) const {
  if (kernel.instruction == "logits") return 1;  // a program has one LM head, larger than most caches
  if (kernel.memory_bytes <= 0) return kCachedCopies;
  const double enough = std::max(kEnoughBytes, 4 * last_cache_bytes());
  return std::clamp(static_cast<int>(std::ceil(enough / kernel.memory_bytes)), 1, kMaxCopies);
}

Result<std::vector<KernelFigures>> KernelBench::measure(const KernelCase& kernel,
                                                        const std::vector<int>& row_counts) {
  const int count = copies(kernel), most = row_counts.back();
  const Program program = kernel_program(kernel, count, pool_);
  const auto width = static_cast<int>(kernel_input_width(program));
  std::unique_ptr<RowStore> hidden;
  if (width > 0) {
    FT_ASSIGN(hidden, backend_.make_rows(width, most));
  }
  StepInput input(kernel, std::move(hidden), width, most, context_);
  CompileOptions options;
  options.max_rows = most, options.max_logit_rows = most;
  FT_ASSIGN(const std::unique_ptr<Executable> executable, backend_.compile(program, options));
  FT_ASSIGN(const std::unique_ptr<State> state,
            backend_.make_state(program.layout(), {.slots = 1, .blocks = input.blocks()}));
  std::vector<Samples> samples(row_counts.size());
  std::vector<double> bandwidths;
  for (int repeat = -1; repeat < repeats_; ++repeat) {  // the first repeat only warms up
    for (std::size_t i = 0; i < row_counts.size(); ++i) {
      const StepArgs args = input.args(row_counts[i]);
      const double bandwidth = probe_.gb_per_s();
      const std::int64_t begin = steady_ns();
      executable->run(args, *state);
      const double ms = static_cast<double>(steady_ns() - begin) * 1e-6 / count;
      if (repeat < 0) continue;
      samples[i].ms.push_back(ms);
      samples[i].shares.push_back(kernel.memory_bytes / ms * 1e-6 / bandwidth);
      bandwidths.push_back(bandwidth);
    }
  }
  std::vector<KernelFigures> list;
  for (std::size_t i = 0; i < row_counts.size(); ++i) {
    KernelFigures figures;
    figures.kernel = kernel, figures.copies = count, figures.rows = row_counts[i];
    figures.ms = quantile(samples[i].ms, 0.5);
    figures.t_over_t1 = figures.ms / quantile(samples[0].ms, 0.5);
    figures.gb_per_s = kernel.memory_bytes / figures.ms * 1e-6;
    figures.bandwidth_share = quantile(samples[i].shares, 0.5);
    figures.read_gb_per_s = quantile(bandwidths, 0.5);
    figures.gmac_per_s = kernel.macs_per_row * figures.rows / figures.ms * 1e-6;
    list.push_back(figures);
  }
  return list;
}

std::string kernels_text(const std::vector<KernelFigures>& list) {
  std::vector<std::vector<std::string>> rows = {
      {"instruction", "model", "role", "format", "shape", "rows", "ms", "t/t1", "GB/s", "share", "GMAC/s"}};
  for (const KernelFigures& f : list) {
    const bool from_memory = f.gb_per_s > 0;
    rows.push_back({f.kernel.instruction, f.kernel.model, f.kernel.role, f.kernel.format.name, f.kernel.shape,
                    std::to_string(f.rows), fmt::format("{:.4f}", f.ms), fmt::format("{:.2f}", f.t_over_t1),
                    from_memory ? fmt::format("{:.1f}", f.gb_per_s) : "",
                    from_memory ? fmt::format("{:.2f}", f.bandwidth_share) : "",
                    f.gmac_per_s > 0 ? fmt::format("{:.0f}", f.gmac_per_s) : ""});
  }
  return table_text(rows);
}

std::string kernels_json(const std::vector<KernelFigures>& list) {
  const auto number = [](double value) {
    return value > 0 ? Json(std::round(value * 1e6) / 1e6) : Json(nullptr);
  };
  Json lines = Json::array();
  for (const KernelFigures& f : list) {
    lines.push_back({{"instruction", f.kernel.instruction},
                     {"format", f.kernel.format.name},
                     {"shape", f.kernel.shape},
                     {"rows", f.rows},
                     {"ms", number(f.ms)},
                     {"gb_per_s", number(f.gb_per_s)},
                     {"bandwidth_share", number(f.bandwidth_share)},
                     {"t_over_t1", number(f.t_over_t1)},
                     {"gmac_per_s", number(f.gmac_per_s)},
                     {"read_gb_per_s", number(f.read_gb_per_s)},
                     {"model", f.kernel.model},
                     {"role", f.kernel.role},
                     {"copies", f.copies}});
  }
  return write_json(lines);
}

}  // namespace ft
