// From a folder to a decoder under failures: memory fails at any allocation, the file system at any call,
// files are truncated or corrupt. The result is an error with a next step, or a working decoder; never an
// exception, a crash or a leaked byte.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <random>

#include "backends/ref/backend.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "speculation/decoder.h"
#include "tests/anomaly/failing_memory.h"
#include "tests/copied_model.h"

namespace ft::test::load_test {
namespace {

/// From a folder to a decoder to the logits of three tokens. Returns the error's sentence, or "ok". Only
/// loading may run out of memory here; speculation/failure_test.cpp covers a step.
std::string load_and_run(const std::string& directory, const FailingAllocation failing = {}) {
  const auto backend = make_ref_backend();
  DecoderOptions options;
  options.context = 32;
  options.prefill_chunk = 4;
  plan_failure(failing);
  Result<Model> model = load_model(directory);
  if (!model.ok()) {
    stop_failing();
    return model.error().message;
  }
  auto decoder = Decoder::make(*backend, *model, options);
  const bool reached = stop_failing();
  if (!decoder.ok()) return decoder.error().message;
  // Without memory for the MTP head, the model decodes without it and reports why.
  if (reached && model->mtp_head.usable()) return "an allocation failed without an error";
  if (reached && model->mtp_head.state != HeadReport::State::kNoMemory) {
    return "an allocation failed and the head is called " +
           std::string(head_state_name(model->mtp_head.state));
  }
  if (reached) return model->mtp_head.sentence;
  const std::int32_t tokens[] = {1, 2, 3};
  const Status scored = (*decoder)->score(tokens, 0, [](std::int64_t, std::span<const float>) {});
  return scored.ok() ? "ok" : scored.error().message;
}

enum class Outcome { kOk, kError, kThrew };

Outcome with_failing_allocation(const std::string& directory, FailingAllocation failing,
                                std::string& message) {
  Outcome outcome = Outcome::kThrew;
  try {
    std::string said = load_and_run(directory, failing);
    outcome = said == "ok" ? Outcome::kOk : Outcome::kError;
    message.swap(said);
  } catch (...) {
  }
  stop_failing();
  return outcome;
}

class LoadAnomaly : public testing::Test {
 protected:
  void SetUp() override {
    set_log_level(LogLevel::kOff);
    ASSERT_EQ(load_and_run(kOddModel),
              "ok");  // one-time initialisation happens here, also if one test runs alone
  }
  void TearDown() override {
    set_file_fault_hook_for_tests(nullptr);
    set_log_level(LogLevel::kInfo);
  }

  /// Loading a folder with these files changed succeeds, or fails with one sentence that names the file.
  void expect_clear(const std::string& directory, const std::string& what) {
    const long before = live_allocations();
    {
      const std::string said = load_and_run(directory);
      EXPECT_FALSE(said.empty()) << what;
      EXPECT_EQ(said.find('\n'), std::string::npos) << what << ": " << said;
      if (said != "ok") {
        ++errors_;
        EXPECT_GT(said.size(), 20U) << what;
      }
    }
    EXPECT_EQ(live_allocations(), before) << what << " leaks memory";
  }

  int errors_ = 0;
};

void fail_every_allocation(bool all_after) {
  const std::string directory = kOddModel;
  ASSERT_EQ(load_and_run(directory), "ok");  // one-time initialisation happens here
  const bool every = std::getenv("FORETOKEN_FULL") != nullptr;
  long errors = 0;
  std::string message;
  for (long n = 1;; n += every ? 1 : 1 + n / 48) {
    const long before = live_allocations();
    const Outcome outcome = with_failing_allocation(directory, {n, all_after}, message);
    ASSERT_NE(outcome, Outcome::kThrew) << "allocation " << n;
    std::string said;
    said.swap(message);
    if (outcome == Outcome::kOk) break;
    EXPECT_NE(said.find("memory"), std::string::npos) << "allocation " << n << ": " << said;
    std::string().swap(said);
    EXPECT_EQ(live_allocations(), before) << "allocation " << n << " leaks memory";
    ++errors;
  }
  EXPECT_GT(errors, 100);
}

TEST_F(LoadAnomaly, EveryAllocationMayFail) { fail_every_allocation(false); }
TEST_F(LoadAnomaly, MemoryMayEndAtEveryAllocation) { fail_every_allocation(true); }

int g_files_until_fault = 0;
int fail_file(FileStep, const char*) { return --g_files_until_fault == 0 ? EIO : 0; }

TEST_F(LoadAnomaly, EveryFileCallMayFail) {
  ASSERT_EQ(load_and_run(kOddModel), "ok");
  set_file_fault_hook_for_tests(fail_file);
  int n = 1;
  for (;; ++n) {
    g_files_until_fault = n;
    const std::string said = load_and_run(kOddModel);
    if (said == "ok") break;
    EXPECT_NE(said.find(kOddModel), std::string::npos) << said;
    EXPECT_NE(said.find("Input/output error"), std::string::npos) << said;
  }
  EXPECT_GE(n, 9) << "config, index and two shards take three calls each";
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const char* const kFiles[] = {"config.json", "model.safetensors.index.json",
                              "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"};

/// The odd model in a separate folder, with one file replaced.
struct Folder {
  format::TemporaryFolder folder;
  Folder() {
    for (const char* name : kFiles) folder.write(name, bytes_of(std::string(kOddModel) + "/" + name));
  }
};

TEST_F(LoadAnomaly, FilesMayEndAnywhere) {
  const Folder odd;
  expect_clear(odd.folder.path(), "whole");
  ASSERT_EQ(errors_, 0);
  int cuts = 0;
  for (const char* name : kFiles) {
    const std::string whole = bytes_of(odd.folder.file(name));
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{8},
                                     std::size_t{9}, std::size_t{200}, whole.size() / 2, whole.size() - 4}) {
      odd.folder.write(name, whole.substr(0, length));
      expect_clear(odd.folder.path(), std::string(name) + " cut to " + std::to_string(length));
      ++cuts;
    }
    odd.folder.remove(name);
    expect_clear(odd.folder.path(), std::string(name) + " removed");
    odd.folder.write(name, whole);
  }
  // Without its index the folder is still a complete model; everything else is an error.
  EXPECT_EQ(errors_, cuts + 3);
}

TEST_F(LoadAnomaly, AConfigThatLiesAboutSizesIsCaught) {
  const char* const lies[][2] = {{"\"vocab_size\": 517", "\"vocab_size\": 518"},
                                 {"\"hidden_size\": 96", "\"hidden_size\": 97"},
                                 {"\"hidden_size\": 96", "\"hidden_size\": 1000000"},
                                 {"\"intermediate_size\": 160", "\"intermediate_size\": 159"},
                                 {"\"num_hidden_layers\": 5", "\"num_hidden_layers\": 6"},
                                 {"\"num_attention_heads\": 3", "\"num_attention_heads\": 4"},
                                 {"\"num_key_value_heads\": 1", "\"num_key_value_heads\": 3"},
                                 {"\"head_dim\": 32", "\"head_dim\": 64"},
                                 {"\"linear_conv_kernel_dim\": 4", "\"linear_conv_kernel_dim\": 5"},
                                 {"\"linear_key_head_dim\": 32", "\"linear_key_head_dim\": 48"},
                                 {"\"linear_num_value_heads\": 3", "\"linear_num_value_heads\": 0"},
                                 {"\"layer_types\": [", "\"layer_types\": [\"linear_attention\","},
                                 {"\"attn_output_gate\": true", "\"attn_output_gate\": false"},
                                 {"\"vocab_size\": 517", "\"vocab_size\": -517"},
                                 {"\"head_dim\": 32", "\"head_dim\": 1e300"},
                                 {"\"head_dim\": 32", "\"head_dim\": \"32\""}};
  int expected = 0;
  for (const auto& lie : lies) {
    CopiedModel copy(kOddModel);
    copy.edit(lie[0], lie[1]);
    expect_clear(copy.write(), lie[1]);
    EXPECT_EQ(errors_, ++expected) << lie[1] << " was believed";
  }
}

TEST_F(LoadAnomaly, BytesOfConfigAndHeadersMayBeAnything) {
  const Folder odd;
  std::mt19937 random(17);
  const int trials = std::getenv("FORETOKEN_FULL") != nullptr ? 2000 : 200;
  for (int trial = 0; trial < trials; ++trial) {
    const char* name = kFiles[random() % 4];
    const std::string whole = bytes_of(odd.folder.file(name));
    std::string changed = whole;
    const std::size_t reach = std::min<std::size_t>(whole.size(), 6000);  // configs, indices and headers
    for (unsigned i = 0; i <= random() % 3; ++i) changed[random() % reach] = static_cast<char>(random());
    odd.folder.write(name, changed);
    expect_clear(odd.folder.path(), std::string(name) + " trial " + std::to_string(trial));
    odd.folder.write(name, whole);
  }
  EXPECT_GT(errors_, trials / 4);
}

}  // namespace
}  // namespace ft::test::load_test
