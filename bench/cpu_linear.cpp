// Times the cpu backend's linear at 1 .. 256 rows beside the machine's read bandwidth, all in one run and
// interleaved:
//   bench_cpu_linear [--outputs N] [--inputs K] [--bits B] [--group G] [--copies C] [--threads T] [--isa
//   NAME] [--json]
// bits 16 is bf16. The copies together are larger than the last-level cache, so the weights come from memory.
// Figures are medians; a share is bytes of weights a second over the bandwidth of the same round.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <string>
#include <vector>

#include "backends/random_weights.h"
#include "backends/registry.h"
#include "base/thread_pool.h"
#include "program/backend.h"

namespace {

double seconds_of(auto&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Bytes a second of plain reads by all workers.
class Probe {
 public:
  explicit Probe(int threads) : pool_(threads), data_(std::size_t{256} << 17, 1) {}  // 256 MiB
  double run() {
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool_.workers()) * 8);
    auto work = [&](int worker, int workers) {
      const std::size_t first =
          data_.size() * static_cast<std::size_t>(worker) / static_cast<std::size_t>(workers);
      const std::size_t last =
          data_.size() * static_cast<std::size_t>(worker + 1) / static_cast<std::size_t>(workers);
      std::uint64_t sum[16] = {};
      for (std::size_t i = first; i + 16 <= last; i += 16) {
        for (std::size_t j = 0; j < 16; ++j) sum[j] += data_[i + j];
      }
      for (const std::uint64_t part : sum) sums[static_cast<std::size_t>(worker) * 8] += part;
    };
    const double seconds = seconds_of([&] { pool_.run(work); });
    if (sums[0] == 0) std::abort();  // keeps the sums alive
    return static_cast<double>(data_.size() * 8) / seconds;
  }

 private:
  ft::ThreadPool pool_;
  std::vector<std::uint64_t> data_;
};

struct Options {
  std::int64_t outputs = 17408, inputs = 5120;
  int bits = 4, group = 64, copies = 6, threads = 0, rounds = 7;
  std::string isa = "auto";
  bool json = false;
};

Options parse(int count, char** words) {
  Options options;
  const std::map<std::string, int*> numbers = {{"--bits", &options.bits},
                                               {"--group", &options.group},
                                               {"--copies", &options.copies},
                                               {"--threads", &options.threads},
                                               {"--rounds", &options.rounds}};
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--json") {
      options.json = true;
      continue;
    }
    if (i + 1 == count) break;
    const std::string value = words[++i];
    if (const auto found = numbers.find(word); found != numbers.end())
      *found->second = std::atoi(value.c_str());
    if (word == "--outputs") options.outputs = std::atoll(value.c_str());
    if (word == "--inputs") options.inputs = std::atoll(value.c_str());
    if (word == "--isa") options.isa = value;
  }
  return options;
}

struct Figures {
  std::map<int, std::vector<double>> times, shares;  // by rows: seconds, share of the bandwidth
  std::vector<double> bandwidths;                    // bytes a second
};

void report(const Options& options, const std::string& machine, double bytes,
            const std::vector<int>& row_counts, const Figures& figures) {
  const double one = median(figures.times.at(1));
  const double work = static_cast<double>(options.outputs * options.inputs) * options.copies;
  std::string rows_json;
  if (!options.json) {
    fmt::print("{}: {} x {}x{}, {} bits, group {}, {:.0f} MB, read {:.1f} GB/s\n", machine, options.copies,
               options.outputs, options.inputs, options.bits, options.group, bytes * 1e-6,
               median(figures.bandwidths) * 1e-9);
  }
  for (const int rows : row_counts) {
    const double seconds = median(figures.times.at(rows));
    const double share = median(figures.shares.at(rows));
    if (options.json) {
      rows_json += fmt::format("{}{{\"rows\":{},\"ms\":{:.3f},\"share\":{:.3f},\"ratio\":{:.3f}}}",
                               rows_json.empty() ? "" : ",", rows, seconds * 1e3, share, seconds / one);
    } else {
      fmt::print("rows {:3}: {:8.2f} ms  {:5.1f} GB/s  share {:.2f}  t/t(1) {:.2f}  {:.0f} GMAC/s\n", rows,
                 seconds * 1e3, bytes / seconds * 1e-9, share, seconds / one, work * rows / seconds * 1e-9);
    }
  }
  if (options.json) {
    fmt::print(
        "{{\"bench\":\"cpu_linear\",\"backend\":\"{}\",\"outputs\":{},\"inputs\":{},\"bits\":{},\"group\":{},"
        "\"bytes\":{:.0f},\"read_gb_s\":{:.2f},\"rows\":[{}]}}\n",
        machine, options.outputs, options.inputs, options.bits, options.group, bytes,
        median(figures.bandwidths) * 1e-9, rows_json);
  }
}

}  // namespace

int main(int count, char** words) {
  const Options options = parse(count, words);
  ft::RandomWeights random(1);
  const ft::Weight weight = options.bits == 16
                                ? random.plain(ft::Format::kBf16, options.outputs, options.inputs, 0.02F)
                                : random.affine(options.outputs, options.inputs, options.bits, options.group);
  ft::Program program;
  program.linear(program.input(static_cast<int>(options.inputs)),
                 std::vector<ft::Weight>(static_cast<std::size_t>(options.copies), weight));
  auto backend = ft::make_backend({.name = "cpu", .threads = options.threads, .isa = options.isa});
  if (!backend) {
    fmt::print(stderr, "{}\n", backend.error().message);
    return 1;
  }
  constexpr int kMaxRows = 256;
  auto executable = (*backend)->compile(program, {.max_rows = kMaxRows, .max_wanted = 0});
  auto state = (*backend)->make_state(program.layout(), {});
  if (!executable || !state) {
    fmt::print(stderr, "{}\n", (executable ? state.error() : executable.error()).message);
    return 1;
  }
  std::vector<float> hidden(static_cast<std::size_t>(kMaxRows * options.inputs));
  for (float& value : hidden) value = random.uniform();
  const std::vector<int> row_counts = {1, 2, 3, 4, 5, 6, 8, 16, 64, 256};
  const auto bytes = static_cast<double>((*executable)->packed_bytes());
  auto [times, shares, bandwidths] = Figures{};
  Probe probe(options.threads);
  for (int round = 0; round < options.rounds; ++round) {
    for (const int rows : row_counts) {
      if (rows > 16 && round > 2) continue;
      const std::vector<std::int32_t> blocks = {0};
      const std::vector<ft::Segment> segments = {{{blocks, 0, 0, 0}, 0, rows, rows}};
      const std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows));
      ft::StepArgs args;
      args.tokens = tokens;
      args.hidden = std::span<const float>(hidden).first(static_cast<std::size_t>(rows * options.inputs));
      args.segments = segments;
      const double before = probe.run();
      const double seconds = seconds_of([&] { (*executable)->run(args, **state); });
      times[rows].push_back(seconds);
      shares[rows].push_back(bytes / seconds / before);
      bandwidths.push_back(before);
    }
  }
  report(options, (*backend)->describe(), bytes, row_counts, {times, shares, bandwidths});
  return 0;
}
