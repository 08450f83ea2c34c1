#include "backends/registry.h"

#include <gtest/gtest.h>
#include <set>

namespace ft::registry_test {
namespace {

std::string refusal(const BackendOptions& options) {
  const auto made = make_backend(options);
  if (made.ok()) return "";
  EXPECT_EQ(made.error().code, Code::kInvalid);
  return made.error().message;
}

TEST(BackendRegistry, EachFlagIsListedOnceAndTakesItsUsualValue) {
  std::set<std::string_view> names;
  for (const BackendFlag& flag : backend_flags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_TRUE(flag.check(std::string(flag.usual_value)).ok()) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
  }
  EXPECT_EQ(names, (std::set<std::string_view>{"isa", "activations", "kv-bits", "device", "split", "devices",
                                               "experts"}));
}

TEST(BackendRegistry, ABackendRefusesARequiredFlagThatItLacks) {
  EXPECT_EQ(refusal({.name = "ref", .settings = {{"kv-bits", 8}}}),
            "ref backend: it has no --kv-bits; omit the flag, or use --backend cpu or cuda or metal");
  EXPECT_EQ(refusal({.name = "cpu", .threads = 1, .settings = {{"device", 1}}}),
            "cpu backend: it has no --device; omit the flag, or use --backend cuda");
  EXPECT_EQ(refusal({.name = "ref", .settings = {{"colour", "red"}}}),
            "ref backend: it has no --colour; omit the flag");
}

TEST(BackendRegistry, ASettingThatIsNotRequiredOrTheUsualOneIsNoReasonToRefuse) {
  EXPECT_EQ(refusal({.name = "ref", .settings = BackendSettings{{"kv-bits", 8}}.optional()}), "");
  EXPECT_EQ(refusal({.name = "ref", .settings = {{"kv-bits", 16}, {"isa", "auto"}}}), "");
  BackendSettings settings = BackendSettings{{"kv-bits", 8}}.optional();
  settings.require("kv-bits");
  EXPECT_NE(refusal({.name = "ref", .settings = settings}), "");
}

TEST(BackendRegistry, ABadValueIsRefusedWithBackendAndFlag) {
  EXPECT_EQ(refusal({.name = "cpu", .threads = 1, .settings = {{"kv-bits", 4}}}),
            "cpu backend: --kv-bits: expected 16 or 8, found '4'");
  EXPECT_EQ(refusal({.name = "cuda", .settings = {{"activations", 4}}}),
            "cuda backend: --activations: expected auto, 8 or 16, found '4'");
  EXPECT_EQ(refusal({.name = "cuda", .settings = {{"device", 64}}}),
            "cuda backend: --device: expected a whole number from 0 to 63, found '64'");
  EXPECT_EQ(refusal({.name = "cuda", .settings = {{"device", "1x"}}}),
            "cuda backend: --device: expected a whole number from 0 to 63, found '1x'");
}

/// A machine whose GPU would suit gives the processor where the GPU cannot go by a setting.
TEST(BackendRegistry, AutoTakesTheProcessorForItsOwnSettings) {
  for (const BackendSettings& settings :
       {BackendSettings{{"isa", "portable"}}, BackendSettings{{"isa", "portable"}, {"device", 3}},
        BackendSettings{{"isa", "portable"}}.optional()}) {
    const auto made = make_backend({.threads = 1, .settings = settings});
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ((*made)->name(), "cpu");
  }
}

TEST(BackendRegistry, AutoIgnoresTheNumberOfAGpuWhereThereIsNone) {
  const Error none{Code::kNotFound, "no GPU"};
  const auto made = choose_backend({.threads = 1, .settings = {{"device", 3}}}, none);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ((*made)->name(), "cpu");
}

TEST(BackendRegistry, AnUnknownBackendIsRefusedWithTheNames) {
  EXPECT_EQ(refusal({.name = "gpu"}), "backend 'gpu' is unknown; choose auto, cpu, cuda, metal or ref");
}

}  // namespace
}  // namespace ft::registry_test
