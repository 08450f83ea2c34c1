#include "cli/commands/packed_weights_folder.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/commands/loading.h"

namespace ft::cli::packed_weights_folder_test {
namespace {

namespace fs = std::filesystem;

TEST(PackedWeightsFolder, IsWhatWasAskedFor) {
  EXPECT_EQ(*packed_weights_folder("off"), "");
  EXPECT_EQ(*packed_weights_folder("some/where"), "some/where");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(*packed_weights_folder("auto"), "/cache/foretoken");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(*packed_weights_folder("auto"), "/home/me/.cache/foretoken");
  EXPECT_EQ(kernel_folder(), "/home/me/.cache/foretoken");
  ::unsetenv("HOME");
  EXPECT_EQ(kernel_folder(), "");
  const Result<std::string> nowhere = packed_weights_folder("auto");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().message.find("use --packed-weights DIR"), std::string::npos);
}

TEST(PackedWeightsFolder, HoldsOneFileForEachProgramOfALoadedModel) {
  const fs::path folder = fs::path(testing::TempDir()) / ("prepared_folder_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  ModelOptions choice;
  choice.directory = "synth:tiny?layers=4&vocabulary=512";
  choice.packed_cache = folder.string();
  for (int start = 0; start < 2; ++start) {
    const auto loaded = load(choice);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    LoadedModel& made = **loaded;
    EXPECT_EQ(find_packed(folder.string(), made.model).files, start == 0 ? 0 : 2);
    const auto target = made.backend->compile(made.model.target, {});
    const auto head = made.backend->compile(*made.model.mtp, {});
    ASSERT_TRUE(target.ok() && head.ok());
    const PackedFiles found = find_packed(folder.string(), made.model);
    EXPECT_EQ(found.files, 2);
    EXPECT_GT(found.bytes, (*target)->packed_bytes() + (*head)->packed_bytes());
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ft::cli::packed_weights_folder_test
