#include "cli/prepared_folder.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/loading.h"

namespace ft::cli {
namespace {

namespace fs = std::filesystem;

TEST(PreparedFolder, IsWhatWasAskedFor) {
  EXPECT_EQ(*prepared_folder("off"), "");
  EXPECT_EQ(*prepared_folder("some/where"), "some/where");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(*prepared_folder("auto"), "/cache/foretoken");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(*prepared_folder("auto"), "/home/me/.cache/foretoken");
  ::unsetenv("HOME");
  const Result<std::string> nowhere = prepared_folder("auto");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().message.find("use --prepared DIR"), std::string::npos);
}

TEST(PreparedFolder, HoldsOneFileForEachProgramOfALoadedModel) {
  const fs::path folder = fs::path(testing::TempDir()) / ("prepared_folder_" + std::to_string(::getpid()));
  fs::remove_all(folder);
  ModelChoice choice;
  choice.directory = "synth:tiny?layers=4&vocabulary=512";
  choice.prepared = folder.string();
  for (int start = 0; start < 2; ++start) {
    const auto loaded = load(choice);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    Loaded& made = **loaded;
    EXPECT_EQ(find_prepared(folder.string(), made.model).files, start == 0 ? 0 : 2);
    const auto trunk = made.backend->compile(made.model.trunk, {});
    const auto head = made.backend->compile(*made.model.mtp, {});
    ASSERT_TRUE(trunk.ok() && head.ok());
    const PreparedFiles found = find_prepared(folder.string(), made.model);
    EXPECT_EQ(found.files, 2);
    EXPECT_GT(found.bytes, (*trunk)->packed_bytes() + (*head)->packed_bytes());
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace ft::cli
