// The division of memory at start, for models of published shapes without weights: the formulas of admission
// with the host's layout and with a GPU's.
#include "sched/memory_plan.h"

#include <gtest/gtest.h>
#include <map>

#include "backends/cuda/state.h"
#include "backends/registry.h"
#include "models/synthetic/model.h"
#include "sched/admission.h"

namespace ft::memory_plan_test {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;

/// A backend that only reports its memory: the layout of a GPU, or of the host for 0 bytes.
class SomeMemory final : public Backend {
 public:
  explicit SomeMemory(std::int64_t device_bytes) : device_bytes_(device_bytes) {}
  std::string_view name() const override { return "some"; }
  std::string describe() const override { return "some memory"; }
  Limits limits(const StateLayout& layout) const override {
    if (device_bytes_ == 0) return cpu_->limits(layout);
    const cuda::StatePlan plan(layout, 16);
    return {.block_bytes = plan.block_bytes, .slot_bytes = plan.slot_bytes, .memory_bytes = device_bytes_};
  }
  Result<std::unique_ptr<Executable>> compile(const Program&, const CompileOptions&) override {
    return Error{Code::kUnsupported, "only its memory"};
  }
  Result<std::unique_ptr<State>> make_state(const StateLayout&, const StateOptions&) override {
    return Error{Code::kUnsupported, "only its memory"};
  }
  Result<std::unique_ptr<RowStore>> make_rows(int, int) override {
    return Error{Code::kUnsupported, "only its memory"};
  }

 private:
  std::int64_t device_bytes_;
  std::unique_ptr<Backend> cpu_ = std::move(*make_backend({.name = "cpu"}));
};

Model shape(const std::string& name) { return std::move(*make_synth_model("synth:" + name, {})); }

DecoderOptions defaults() {
  DecoderOptions options;
  options.recall_bytes = 64 << 20;
  return options;
}

std::int64_t needed(const Backend& backend, const Model& model, const MemoryPlan& plan) {
  DecoderOptions options = defaults();
  options.slots = plan.slots, options.context = plan.context, options.cache_bytes = plan.cache_bytes;
  return memory_needed(backend, model, options).total();
}

TEST(MemoryPlan, A27bOnAGpuOf80GbHoldsTwoWholeConversationsBesideEightSlots) {
  const Model model = shape("qwen3.5-27b?bits=4");
  const SomeMemory gpu(79 * kGigabyte);
  const MemoryPlan plan = plan_memory(gpu, model, defaults(), {});
  EXPECT_EQ(plan.slots, kMaxSlots);
  EXPECT_GE(plan.context, kRoomyContext);
  EXPECT_GE(plan.cache_bytes, 2 * plan.prompt_bytes);
  EXPECT_TRUE(plan.on_device);
  EXPECT_LE(needed(gpu, model, plan), 79 * kGigabyte);
}

TEST(MemoryPlan, A27bOnAGpuOf32GbKeepsTheEndOfOneWholeConversation) {
  const Model model = shape("qwen3.5-27b?bits=4");
  const SomeMemory gpu(31 * kGigabyte);
  const MemoryPlan plan = plan_memory(gpu, model, defaults(), {});
  EXPECT_EQ(plan.slots, 1);
  EXPECT_GE(plan.context, kRoomyContext);
  EXPECT_GE(plan.cache_bytes, plan.prompt_bytes);
  EXPECT_LE(needed(gpu, model, plan), 31 * kGigabyte);
}

TEST(MemoryPlan, A4bOnAMachineOf24GbHasRoomForAnAgentInFewerSlots) {
  const Model model = shape("qwen3.5-4b?bits=4");
  const SomeMemory host(0);
  const MemoryPlan plan = plan_memory_within(22 * kGigabyte, host, model, defaults(), {});
  EXPECT_GE(plan.slots, 2);
  EXPECT_GE(plan.context, kRoomyContext);
  EXPECT_GE(plan.cache_bytes, plan.prompt_bytes);
  EXPECT_FALSE(plan.on_device);
  EXPECT_LE(needed(host, model, plan), 22 * kGigabyte * 7 / 8) << "an eighth is left to other programs";
}

TEST(MemoryPlan, AnAskedLimitIsUsableWholeAndOtherwiseSomeIsLeftToOtherPrograms) {
  const Model model = shape("tiny");
  for (const std::int64_t device : {std::int64_t{0}, 48 * kGigabyte}) {
    const SomeMemory backend(device);
    const std::int64_t share = device > 0 ? 16 : 8, limit = 16 * kGigabyte;
    const MemoryPlan open = plan_memory_within(limit, backend, model, defaults(), {});
    EXPECT_EQ(open.usable_bytes, limit - limit / share);
    // As a front does, which gives the usable bytes of the first process to every later one.
    const MemoryPlan asked = plan_memory(backend, model, defaults(), {.limit_bytes = open.usable_bytes});
    EXPECT_EQ(asked.usable_bytes, open.usable_bytes);
  }
}

TEST(MemoryPlan, WhatIsAskedForIsKeptAndWhatIsOpenFitsBesideIt) {
  for (const char* name : {"tiny", "qwen3.5-4b?bits=4", "gemma4-e4b?bits=4", "qwen3.5-35b-a3b?bits=4"}) {
    const Model model = shape(name);
    for (const std::int64_t device : {std::int64_t{0}, 48 * kGigabyte}) {
      const SomeMemory backend(device);
      for (const MemoryAsk& ask :
           {MemoryAsk{}, MemoryAsk{.slots = 3}, MemoryAsk{.slots = 2, .context = 8192},
            MemoryAsk{.context = 16384, .cache_bytes = 1 << 30}, MemoryAsk{.cache_bytes = 0}}) {
        const std::int64_t limit = 48 * kGigabyte;
        const MemoryPlan plan = plan_memory_within(limit, backend, model, defaults(), ask);
        EXPECT_LE(needed(backend, model, plan), limit) << name;
        EXPECT_TRUE(ask.slots == 0 || plan.slots == ask.slots) << name;
        EXPECT_TRUE(ask.context == 0 || plan.context == ask.context) << name;
        EXPECT_TRUE(ask.cache_bytes < 0 ? plan.cache_bytes >= plan.prompt_bytes
                                        : plan.cache_bytes == ask.cache_bytes)
            << name;
        EXPECT_EQ(plan.whole_context, plan.context == model.facts.context) << name;
      }
    }
  }
}

/// Decisions of an earlier version, whose formulas were in admission and in the models: a change of the
/// formulas fails here.
TEST(MemoryPlan, RecordedDecisionsHold) {
  struct Decision {
    const char* shape;
    std::int64_t gigabytes;
    bool on_gpu;
    int slots;
    std::int64_t context, cache_bytes;
  };
  const Decision recorded[] = {
      {"tiny", 24, false, 8, 32768, 9064655484},
      {"tiny", 24, true, 8, 32768, 19629458424},
      {"qwen3.5-4b?bits=4", 24, false, 4, 65536, 8078593216},
      {"qwen3.5-4b?bits=4", 24, true, 4, 65536, 9578593216},
      {"qwen3.5-4b?bits=4", 48, false, 8, 87040, 12468092928},
      {"qwen3.5-4b?bits=4", 48, true, 8, 95232, 13197409472},
      {"qwen3.5-4b?bits=4", 141, false, 8, 262144, 25378160640},
      {"qwen3.5-4b?bits=4", 141, true, 8, 262144, 51160557728},
      {"gemma4-e4b?bits=4", 24, false, 8, 94208, 5354029056},
      {"gemma4-e4b?bits=4", 24, true, 4, 65536, 4578414528},
      {"gemma4-e4b?bits=4", 48, false, 8, 131072, 10793498976},
      {"gemma4-e4b?bits=4", 48, true, 8, 72960, 8558465216},
      {"gemma4-e4b?bits=4", 141, false, 8, 131072, 51480998976},
      {"gemma4-e4b?bits=4", 141, true, 8, 131072, 69086968992},
  };
  std::map<std::string, Model> models;  // made once
  for (const Decision& decision : recorded) {
    if (!models.contains(decision.shape)) models.emplace(decision.shape, shape(decision.shape));
    const std::int64_t limit = decision.gigabytes * kGigabyte;
    const SomeMemory backend(decision.on_gpu ? limit : 0);
    const MemoryPlan plan = plan_memory_within(limit, backend, models.at(decision.shape), defaults(), {});
    const auto where = testing::Message() << decision.shape << " " << decision.gigabytes << " GB "
                                          << (decision.on_gpu ? "gpu" : "host");
    EXPECT_EQ(plan.slots, decision.slots) << where;
    EXPECT_EQ(plan.context, decision.context) << where;
    EXPECT_EQ(plan.cache_bytes, decision.cache_bytes) << where;
  }
}

TEST(MemoryPlan, MoreMemoryNeverGivesLess) {
  const Model model = shape("qwen3.5-4b?bits=4");
  const SomeMemory host(0);
  MemoryPlan before;
  for (std::int64_t limit = 6 * kGigabyte; limit <= 400 * kGigabyte; limit += limit / 8) {
    const MemoryPlan plan = plan_memory_within(limit, host, model, defaults(), {.slots = 4});
    EXPECT_GE(plan.context, before.context) << limit;
    EXPECT_LE(plan.context, model.facts.context);
    before = plan;
  }
  EXPECT_TRUE(before.whole_context);
}

TEST(MemoryPlan, ATinyMachineGetsTheLeastAndTheRefusalOfAdmission) {
  const Model model = shape("qwen3.5-4b?bits=4");
  const SomeMemory host(0);
  const MemoryPlan plan = plan_memory_within(1 * kGigabyte, host, model, defaults(), {});
  EXPECT_EQ(plan.slots, 1);
  EXPECT_EQ(plan.context, kMinContext);
  EXPECT_EQ(plan.cache_bytes, 0);
  const MemoryPlan mapped =
      plan_memory_within(2 * kGigabyte, host, model, defaults(), {.weights_mapped = true});
  EXPECT_EQ(mapped.context, kMinContext) << "the rest holds pages of the weights";
  EXPECT_LT(mapped.cache_bytes, kGigabyte);
}

TEST(MemoryPlan, WithoutAKnownLimitTheSmallDefaultsHold) {
  const Model model = shape("tiny");
  const MemoryPlan plan = plan_memory_within(0, SomeMemory(0), model, defaults(), {});
  EXPECT_EQ(plan.slots, kMaxSlots);
  EXPECT_EQ(plan.context, kMinContext);
  EXPECT_EQ(plan.cache_bytes, 1 << 30);
}

}  // namespace
}  // namespace ft::memory_plan_test
