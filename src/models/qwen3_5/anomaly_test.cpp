// System failures: every file operation and every allocation of the load path fails once, at each n, and then
// for ever from n on. The answer is always an Error and the next attempt succeeds.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>

#include "base/log.h"
#include "base/mapped_file.h"
#include "format/checkpoint.h"
#include "format/model_fixture.h"
#include "format/weights.h"
#include "models/qwen3_5/family.h"
#include "models/qwen3_5/norms.h"
#include "models/weight_source.h"

namespace {

// Counts down allocations of this thread; 0 fails. Off while negative.
thread_local long allocations_left = -1;
thread_local bool fail_for_ever = false;
thread_local bool has_failed = false;

bool allocation_fails() {
  if (allocations_left < 0) return false;
  if (allocations_left > 0) {
    --allocations_left;
    return false;
  }
  has_failed = true;
  if (!fail_for_ever) allocations_left = -1;
  return true;
}

}  // namespace

// The test program's own operator new: malloc, except when a test has planned a failure. It is never inlined,
// because the compiler would take malloc and delete, seen together, for a mistake.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* memory = allocation_fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return allocation_fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace ft::qwen3_5::anomaly_test {
namespace {

using format::Checkpoint;
using format::floats;
using format::safetensors_file;
using format::TemporaryFolder;

class Anomaly : public ::testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kOff);
    const std::string norm = "model.language_model.layers.0.input_layernorm.weight";
    folder_.write("one.safetensors",
                  safetensors_file({{norm, "F32", "[2]", floats({0.1F, 0.2F})},
                                    {"model.language_model.layers.0.linear_attn.conv1d.weight", "F32",
                                     "[2,1,4]", floats(std::vector<float>(8, 0))}},
                                   R"({"format":"pt"})"));
    folder_.write("two.safetensors",
                  safetensors_file({{"language_model.lm_head.weight", "U32", "[3,8]", std::string(96, 'w')},
                                    {"language_model.lm_head.scales", "BF16", "[3,2]", std::string(12, 's')},
                                    {"language_model.lm_head.biases", "BF16", "[3,2]", std::string(12, 'b')}},
                                   R"({"format":"pt"})"));
    folder_.write("mtp.safetensors",
                  safetensors_file({{"mtp.fc.weight", "BF16", "[2,4]", std::string(16, 'm')}}));
    folder_.write("model.safetensors.index.json",
                  "{\"weight_map\":{\"" + norm +
                      R"(":"one.safetensors","language_model.lm_head.weight":"two.safetensors"}})");
    folder_.write("config.json",
                  R"({"model_type":"qwen3_5","num_hidden_layers":2,"quantization":{"bits":4,"group_size":32},
                      "rope_parameters":{"rope_type":"yarn","factor":4},"eos_token_id":[1,2]})");
    folder_.write("generation_config.json", R"({"eos_token_id":[3],"temperature":0.5})");
    folder_.write("mtplx_runtime.json",
                  R"({"mtp_depth_max":3,"mtp_contract":{"concat_order":"embedding_hidden"}})");
    directory_ = folder_.path();
  }
  void TearDown() override {
    allocations_left = -1;
    set_file_fault_hook_for_tests(nullptr);
    set_log_level(LogLevel::kInfo);
  }

  /// The whole load path.
  Status load() const {
    FT_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(directory_));
    FT_ASSIGN(const format::ConfigFiles files, format::ConfigFiles::read(directory_));
    FT_ASSIGN(const FamilyMatch match, read_config(files));
    const auto& config = static_cast<const Config&>(*match.config);
    FT_ASSIGN(WeightSource source, WeightSource::open(*match.family, checkpoint, config));
    format::WeightIndex& index = source.index();
    FT_TRY(index.matrix("lm_head.weight", 3, 64));
    FT_TRY(mtp_norms_are_shifted(index, config));
    return {};
  }

  TemporaryFolder folder_;
  std::string directory_;
};

int steps_left;
int fault;
std::string failed_path;

int count_down(FileStep /*step*/, const char* path) {
  if (steps_left-- != 0) return 0;
  failed_path = path;
  return fault;
}

TEST_F(Anomaly, EveryFailingFileOperationIsAnErrorThatNamesTheFile) {
  ASSERT_TRUE(load().ok());
  for (const int number : {EIO, ENOMEM}) {
    int n = 0;
    for (;; ++n) {
      ASSERT_LT(n, 1000);
      steps_left = n;
      fault = number;
      set_file_fault_hook_for_tests(count_down);
      const Status status = load();
      set_file_fault_hook_for_tests(nullptr);
      if (status.ok()) break;
      EXPECT_EQ(status.error().code, number == EIO ? Code::kIo : Code::kExhausted);
      EXPECT_EQ(status.error().message.find(failed_path), 0U) << status.error().message;
    }
    EXPECT_EQ(n, 3 * 9)
        << "open, size and map of 3 safetensors files, index, and config and runtime twice, generation";
    EXPECT_TRUE(load().ok());
  }
}

TEST_F(Anomaly, EveryFailingAllocationIsAnErrorAndNothingIsLeftBroken) {
  ASSERT_TRUE(load().ok());
  for (const bool for_ever : {false, true}) {
    long n = 0;
    bool done = false;
    for (; !done; ++n) {
      ASSERT_LT(n, 100000);
      fail_for_ever = for_ever;
      has_failed = false;
      allocations_left = n;
      const Status status = load();
      allocations_left = -1;
      done = !has_failed;  // there are at most n allocations
      if (done) {
        EXPECT_TRUE(status.ok());
        break;
      }
      ASSERT_FALSE(status.ok()) << "allocation " << n << " failed unnoticed";
      EXPECT_EQ(status.error().code, Code::kExhausted) << status.error().message;
    }
    EXPECT_GT(n, 100);
    EXPECT_TRUE(load().ok());
  }
}

}  // namespace
}  // namespace ft::qwen3_5::anomaly_test
