#include "format/checkpoint.h"

#include <chrono>
#include <fstream>
#include <gtest/gtest.h>
#include <utility>

#include "base/log.h"
#include "format/model_fixture.h"

namespace ft::format::checkpoint_test {
namespace {

namespace fs = std::filesystem;

std::string tensor_file(const std::vector<std::string>& names, const std::string& metadata = "") {
  std::vector<Piece> pieces;
  for (const std::string& name : names) pieces.push_back({name, "F32", "[1]", floats({1})});
  return safetensors_file(pieces, metadata);
}

std::string message_of(const TemporaryFolder& folder) {
  auto opened = Checkpoint::open(folder.path());
  return opened.ok() ? "ok" : opened.error().message;
}

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  auto opened = Checkpoint::open(folder.path());
  EXPECT_TRUE(opened.ok()) << opened.error().message;
  return opened.ok() ? opened->names() : std::vector<std::string>{};
}

using Names = std::vector<std::string>;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override { set_log_level(LogLevel::kOff); }
  void TearDown() override { set_log_level(LogLevel::kInfo); }
  TemporaryFolder folder_;
};

TEST_F(CheckpointTest, ASingleFileGivesItsTensorsSortedAndKeepsThemAcrossAMove) {
  folder_.write("model.safetensors", tensor_file({"b", "a"}, R"({"format":"mlx"})"));
  folder_.write("model-extra.safetensors", tensor_file({"c"}));
  auto opened = Checkpoint::open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened->names(), (Names{"a", "b"}));
  EXPECT_EQ(opened->total_bytes(), 8U);
  EXPECT_EQ(opened->metadata_format(), "mlx");
  EXPECT_EQ(opened->mtp_file(), "");
  EXPECT_EQ(opened->find("c"), nullptr);
  EXPECT_EQ(opened->find(""), nullptr);
  const TensorView* a = opened->find("a");
  const Checkpoint moved = std::move(*opened);
  EXPECT_EQ(moved.find("a"), a);
  EXPECT_EQ(load_float(a->bytes.data(), a->dtype, 0), 1.0F);
}

/// Kilobytes of this process's memory that are pages of a file whose name ends in `name`.
long resident_kb(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  long sum = 0;
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) inside = line.ends_with(name);  // "begin-end rights ... path"
    if (inside && line.starts_with("Rss:")) sum += std::stol(line.substr(4));
  }
  return sum;
}

TEST_F(CheckpointTest, DroppedPagesLeaveTheProcessAndComeBackWhereTheyAreRead) {
  constexpr int kFloats = 1 << 20;
  folder_.write("dropped.safetensors",
                safetensors_file({{"a", "F32", "[1048576]", floats(std::vector<float>(kFloats, 2.5F))}}, ""));
  folder_.write("model.safetensors.index.json", R"({"weight_map":{"a":"dropped.safetensors"}})");
  const auto opened = Checkpoint::open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  const TensorView* a = opened->find("a");
  for (int i = 0; i < kFloats; i += 256) ASSERT_EQ(load_float(a->bytes.data(), a->dtype, i), 2.5F);
  ASSERT_GE(resident_kb("dropped.safetensors"), 4096) << "the test must see the pages that were read";
  opened->drop_pages();
  EXPECT_LT(resident_kb("dropped.safetensors"), 64);
  EXPECT_EQ(load_float(a->bytes.data(), a->dtype, kFloats - 1), 2.5F);
}

TEST_F(CheckpointTest, AnIndexUnitesItsShardsAndNothingElse) {
  folder_.write("one.safetensors", tensor_file({"a"}, R"({"format":"pt"})"));
  folder_.write("sub/two.safetensors", tensor_file({"b", "not-in-index"}, R"({"format":"mlx"})"));
  folder_.write("model.safetensors", tensor_file({"stray"}));
  folder_.write(
      "model.safetensors.index.json",
      R"({"metadata":{"total_size":8},"weight_map":{"a":"one.safetensors","b":"sub/./two.safetensors"}})");
  auto opened = Checkpoint::open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(opened->names(), (Names{"a", "b", "not-in-index"}));
  EXPECT_EQ(opened->metadata_format(), "") << "shards disagree";
}

TEST_F(CheckpointTest, WithoutAnIndexModelFilesComeBeforeAnyOthers) {
  folder_.write("zeta.safetensors", tensor_file({"z"}));
  EXPECT_EQ(names_in(folder_), (Names{"z"}));
  folder_.write("model-00001-of-00002.safetensors", tensor_file({"a"}));
  folder_.write("model-00002-of-00002.safetensors", tensor_file({"b"}));
  EXPECT_EQ(names_in(folder_), (Names{"a", "b"}));
}

TEST_F(CheckpointTest, AMissingNumberedShardIsNoticed) {
  folder_.write("model-00001-of-00003.safetensors", tensor_file({"a"}));
  folder_.write("model-00003-of-00003.safetensors", tensor_file({"c"}));
  EXPECT_NE(message_of(folder_).find("expected 3 files 'model', found 2 (number 2 is missing)"),
            std::string::npos);
}

TEST_F(CheckpointTest, SidecarsAreFoundInTheirOrderAndNeverCountAsShards) {
  folder_.write("model-00001-of-00001.safetensors", tensor_file({"a", "mtp.old"}));
  auto without = Checkpoint::open(folder_.path());
  ASSERT_TRUE(without.ok());
  EXPECT_EQ(without->mtp_file(), "model-00001-of-00001.safetensors");
  EXPECT_FALSE(without->mtp_is_sidecar());

  const std::vector<std::pair<std::string, std::string>> later_wins = {
      {"model-mtp.safetensors", ""},
      {"mtp/weights.safetensors", ""},
      {"mtp.safetensors", ""},
      {"second.safetensors", R"({"mtp_file":"second.safetensors"})"},
      {"first.safetensors", R"({"mtp_file":"second.safetensors","mtp_sidecar_file":"first.safetensors"})"}};
  for (const auto& [file, runtime] : later_wins) {
    folder_.write(file, tensor_file({"mtp." + file}));
    if (!runtime.empty()) folder_.write("mtplx_runtime.json", runtime);
    auto opened = Checkpoint::open(folder_.path());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ(opened->mtp_file(), file);
    EXPECT_TRUE(opened->mtp_is_sidecar());
    EXPECT_EQ(opened->names(), (Names{"a", "mtp." + file})) << "the main files' own head is replaced";
  }
  folder_.write("heads/h.safetensors", tensor_file({"fc.weight"}));
  folder_.write("config.json", R"({"mlx_lm_extra_tensors":{"mtp_file":"heads/h.safetensors"}})");
  EXPECT_EQ(names_in(folder_), (Names{"a", "mtp.fc.weight"}))
      << "the prefix is added where a head leaves it out";
}

TEST_F(CheckpointTest, ASidecarThatTheIndexNamesIsLoadedOnce) {
  folder_.write("one.safetensors", tensor_file({"a"}));
  folder_.write("mtp.safetensors", tensor_file({"mtp.fc"}));
  folder_.write("model.safetensors.index.json",
                R"({"weight_map":{"a":"one.safetensors","mtp.fc":"mtp.safetensors"}})");
  EXPECT_EQ(names_in(folder_), (Names{"a", "mtp.fc"}));
}

TEST_F(CheckpointTest, ANamedSidecarThatIsAbsentIsAnError) {
  folder_.write("model.safetensors", tensor_file({"a"}));
  folder_.write("config.json", R"({"mlx_lm_extra_tensors":{"mtp_file":"gone.safetensors"}})");
  auto opened = Checkpoint::open(folder_.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().code, Code::kNotFound);
  EXPECT_NE(opened.error().message.find("mtp_file names 'gone.safetensors'"), std::string::npos);
}

TEST_F(CheckpointTest, PathsOutsideTheDirectoryAreRefused) {
  folder_.write("model.safetensors", tensor_file({"a"}));
  for (const char* path : {"/etc/passwd", "../x.safetensors", "a/../../x", "..", ""}) {
    folder_.write("model.safetensors.index.json", std::string(R"({"weight_map":{"a":")") + path + "\"}}");
    EXPECT_NE(message_of(folder_).find("expected a path inside the model's directory"), std::string::npos)
        << path;
    folder_.remove("model.safetensors.index.json");
    folder_.write("config.json", std::string(R"({"mlx_lm_extra_tensors":{"mtp_file":")") + path + "\"}}");
    EXPECT_NE(message_of(folder_).find("expected a path inside the model's directory"), std::string::npos)
        << path;
    folder_.remove("config.json");
  }
}

TEST_F(CheckpointTest, ABrokenIndexIsNamed) {
  folder_.write("one.safetensors", tensor_file({"a"}));
  const auto with_index = [&](const char* text) {
    folder_.write("model.safetensors.index.json", text);
    return message_of(folder_);
  };
  for (const char* text : {"{}", R"({"weight_map":{}})", R"({"weight_map":[]})"}) {
    EXPECT_NE(with_index(text).find("expected a 'weight_map' that names at least one tensor"),
              std::string::npos);
  }
  EXPECT_NE(with_index("").find("expected JSON"), std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":5}})").find("weight_map 'a': expected a file name"),
            std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":"two.safetensors"}})").find("names the file 'two.safetensors'"),
            std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":"one.safetensors","b":"one.safetensors"}})")
                .find("names 1 tensor(s) that their file lacks ('b' in one.safetensors)"),
            std::string::npos);
}

TEST_F(CheckpointTest, ATensorInTheWrongShardOrInTwoIsAnError) {
  folder_.write("one.safetensors", tensor_file({"a"}));
  folder_.write("two.safetensors", tensor_file({"b"}));
  folder_.write("model.safetensors.index.json",
                R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})");
  EXPECT_NE(message_of(folder_).find("names 2 tensor(s) that their file lacks"), std::string::npos);
  folder_.write("two.safetensors", tensor_file({"a", "b"}));
  EXPECT_NE(message_of(folder_).find("tensor 'a': expected every tensor in one file only"),
            std::string::npos);
}

TEST_F(CheckpointTest, WhatIsNotAModelDirectoryIsSaid) {
  EXPECT_NE(message_of(folder_).find("expected safetensors files, found none"), std::string::npos);
  auto absent = Checkpoint::open(folder_.file("gone"));
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  auto file = Checkpoint::open(folder_.write("f", "x"));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code, Code::kInvalid);
}

TEST_F(CheckpointTest, ADirectoryInPlaceOfAShardIsRefusedAndALinkIsFollowed) {
  fs::create_directory(folder_.file("model.safetensors"));
  EXPECT_NE(message_of(folder_).find("expected a regular file, found a directory"), std::string::npos);
  folder_.remove("model.safetensors");
  folder_.write("blobs/123", tensor_file({"a"}));
  fs::create_symlink("blobs/123", folder_.file("model.safetensors"));
  EXPECT_EQ(names_in(folder_), (Names{"a"}));
  folder_.remove("blobs");
  EXPECT_NE(message_of(folder_).find("model.safetensors: cannot open"), std::string::npos)
      << "a dangling link";
}

TEST_F(CheckpointTest, AFingerprintChangesWithTimesNamesHeadersAndData) {
  const auto of_folder = [this] { return Checkpoint::open(folder_.path())->state_fingerprint(); };
  const fs::path file = folder_.file("model.safetensors");
  folder_.write("model.safetensors", tensor_file({"a", "b"}));
  const auto time = fs::last_write_time(file);
  const std::string first = of_folder();
  EXPECT_EQ(of_folder(), first);
  fs::last_write_time(file, time + std::chrono::milliseconds(1));
  EXPECT_NE(of_folder(), first) << "touched";
  folder_.write("model.safetensors", tensor_file({"a", "c"}));
  fs::last_write_time(file, time);
  EXPECT_NE(of_folder(), first) << "another name, size and time alike";
  folder_.write("model.safetensors",
                safetensors_file({{"a", "F32", "[1]", floats({1})}, {"b", "F32", "[1]", floats({2})}}, ""));
  fs::last_write_time(file, time);
  EXPECT_NE(of_folder(), first) << "another value, all else alike";
  folder_.write("model.safetensors", tensor_file({"a", "b"}));
  fs::last_write_time(file, time);
  EXPECT_EQ(of_folder(), first);
  folder_.write("mtp.safetensors", tensor_file({"mtp.fc"}));
  EXPECT_NE(of_folder(), first) << "a head next to it";
}

TEST_F(CheckpointTest, EveryTruncationOfEveryFileIsAnErrorThatNamesIt) {
  const std::string shard = tensor_file({"a"});
  const std::string head = tensor_file({"mtp.fc"});
  const std::string index = R"({"weight_map":{"a":"one.safetensors"}})";
  folder_.write("one.safetensors", shard);
  folder_.write("mtp.safetensors", head);
  folder_.write("model.safetensors.index.json", index);
  ASSERT_EQ(message_of(folder_), "ok");
  for (const auto& [name, content] : {std::pair{"one.safetensors", shard}, std::pair{"mtp.safetensors", head},
                                      std::pair{"model.safetensors.index.json", index}}) {
    for (std::size_t length = 0; length < content.size(); ++length) {
      folder_.write(name, content.substr(0, length));
      EXPECT_EQ(message_of(folder_).find(folder_.file(name)), 0U) << length;
    }
    folder_.write(name, content);
  }
}

}  // namespace
}  // namespace ft::format::checkpoint_test
