#include "hub/scan.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

namespace ft::hub::scan_test {
namespace {

namespace fs = std::filesystem;
const std::string kCommit(40, 'c');
constexpr const char* kConfig =
    R"({"model_type": "qwen3_5", "architectures": ["X"], "text_config": {"mtp_num_hidden_layers": 1},
        "quantization": {"bits": 4, "group_size": 64}})";

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// A safetensors file of one tensor, `missing` bytes short.
std::string weights(const std::string& tensor, std::size_t bytes, std::size_t missing = 0) {
  const std::string header = "{\"" + tensor + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(bytes) +
                             "],\"data_offsets\":[0," + std::to_string(bytes) + "]}}";
  const std::uint64_t length = header.size();
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + header + std::string(bytes - missing, 'x');
}

class Scanning : public testing::Test {
 protected:
  Scanning() {
    std::string name = (fs::temp_directory_path() / "foretoken-scan-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
    places.hub_cache = (root / "hub").string();
  }
  ~Scanning() override {
    std::error_code ignored;
    fs::remove_all(root, ignored);
  }
  fs::path snapshot(const std::string& repository, const std::string& commit = kCommit) const {
    return root / "hub" / repository / "snapshots" / commit;
  }
  Scan scan() {
    return scan_models(places, [] { return false; });
  }
  fs::path root;
  ScanPlaces places;
};

TEST_F(Scanning, TheCacheNamesItsModelsByRepositoryAndRevision) {
  write(snapshot("models--org--name") / "config.json", kConfig);
  write(root / "hub/models--org--name/refs/main", kCommit);
  write(snapshot("models--org--name", std::string(40, 'd')) / "config.json", kConfig);
  write(root / "hub/.locks/x", "");
  write(root / "hub/datasets--a--b/refs/main", kCommit);
  const Scan found = scan();
  ASSERT_EQ(found.models.size(), 2U);
  EXPECT_EQ(found.models[0].name, "org/name");
  EXPECT_EQ(found.models[1].name, "org/name@" + std::string(40, 'd'));
}

TEST_F(Scanning, AnUnfinishedPullHasTheNameThatWasAskedFor) {
  const fs::path repository = root / "hub/models--org--name";
  write(snapshot("models--org--name") / "config.json", kConfig);
  write(repository / ".foretoken" / kCommit, "main");
  write(repository / "trees" / (kCommit + ".json"),
        R"({"format_version": 1, "files": {"config.json": {"size": 9, "blob_id": ")" + std::string(40, '1') +
            R"("}, "w": {"size": 5, "blob_id": ")" + std::string(40, '2') + R"("}, "bad": 3}})");
  Scan found = scan();
  ASSERT_EQ(found.models.size(), 1U);
  EXPECT_EQ(found.models[0].name, "org/name");
  EXPECT_EQ(found.models[0].kept_bytes, static_cast<std::int64_t>(std::string(kConfig).size()));
  EXPECT_EQ(summarise(found.models[0]).problem,
            "its download is unfinished (" + std::to_string(std::string(kConfig).size()) + " bytes present)");
  write(repository / ".foretoken" / kCommit, "v1:Q4_K_M");
  EXPECT_EQ(scan().models[0].name, "org/name@v1:Q4_K_M");
  for (const char* bad : {"", "../x", "a b", "@"}) {
    write(repository / ".foretoken" / kCommit, bad);
    EXPECT_EQ(scan().models[0].name, "org/name@" + kCommit) << bad;
  }
  write(repository / ".foretoken" / kCommit, "main");  // an update of a model that is here
  write(snapshot("models--org--name", std::string(40, 'd')) / "config.json", kConfig);
  write(repository / "refs/main", std::string(40, 'd'));
  found = scan();
  EXPECT_EQ(found.models[0].name, "org/name");
  EXPECT_EQ(found.models[0].kept_bytes, -1);
  EXPECT_EQ(found.models[1].name, "org/name@" + kCommit);
}

TEST_F(Scanning, ASnapshotAnswersToAllOfItsNames) {
  write(snapshot("models--org--name") / "config.json", kConfig);
  for (const char* ref : {"main", "v1"}) write(root / "hub/models--org--name/refs" / ref, kCommit);
  const Scan found = scan();
  for (const std::string& name :
       std::vector<std::string>{"org/name", "org/name@v1", "name@v1", "ORG/name@" + kCommit})
    EXPECT_EQ(matching(found.models, name).size(), 1U) << name;
  EXPECT_EQ(matching(found.models, "org/name@v2").size(), 0U);
}

TEST_F(Scanning, OtherProgramsModelsAreFound) {
  write(root / "lm/pub/model/config.json", kConfig);
  write(root / "lm/pub/other/m-Q4_K_M.gguf", "GGUF");
  write(root / "lm/pub/other/mmproj.gguf", "GGUF");
  write(root / "mtplx/Org--Name/config.json", kConfig);
  write(root / "own/a/b/config.json", kConfig);
  write(root / "ollama/manifests/registry/library/qwen/8b",
        R"({"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:abc"}]})");
  write(root / "ollama/manifests/registry/library/bad/1",
        R"({"layers":[3,{"mediaType":4},{"digest":"../x"}]})");
  places.lm_studio = {(root / "lm").string()}, places.mtplx = {(root / "mtplx").string()};
  places.folders = {(root / "own").string(), (root / "absent").string()};
  places.ollama = (root / "ollama").string();
  std::vector<std::string> names;
  for (const FoundModel& model : scan().models) names.push_back(model.name);
  EXPECT_EQ(names, (std::vector<std::string>{"pub/model", "pub/other:m-Q4_K_M", "Org/Name", "a/b",
                                             "ollama:qwen:8b"}));
}

TEST_F(Scanning, AFolderOfFilesHoldsOneModelEachAndTheirDraftersAreNone) {
  write(root / "own/flat-Q8_0.gguf", "GGUF");
  write(root / "own/eagle3/config.json", kConfig);
  write(root / "own/deep/one/m-Q4_K_M.gguf", "GGUF");
  write(root / "own/deep/one/dflash/config.json", kConfig);
  write(root / "own/deep/one/other/config.json", kConfig);
  write(root / "own/deep/assistant/config.json", kConfig);  // no file next to it: a model of that name
  for (const char* end : {"", "/"}) {
    places.folders = {(root / "own").string() + end};
    std::vector<std::string> names;
    for (const FoundModel& model : scan().models) names.push_back(model.name);
    EXPECT_EQ(names, (std::vector<std::string>{"own:flat-Q8_0", "deep/assistant", "deep/one:m-Q4_K_M",
                                               "deep/one/other"}));
  }
}

TEST_F(Scanning, NamesMatchAtTheirEndAndWithoutCase) {
  const std::vector<FoundModel> models = {
      {"org/Name", "", "", "", ""}, {"two/name", "", "", "", ""}, {"x/y", "", "", "", ""}};
  EXPECT_EQ(matching(models, "name").size(), 2U);
  EXPECT_EQ(matching(models, "ORG/NAME").size(), 1U);
  EXPECT_EQ(matching(models, "ame").size(), 0U);
  const std::vector<FoundModel> files = {{"org/m-GGUF:m-Q8_0", "", "", "", ""},
                                         {"org/m-GGUF:m-Q4_K_M", "", "", "", ""},
                                         {"org/one-GGUF:one", "", "", "", ""}};
  EXPECT_EQ(matching(files, "org/m-GGUF").size(), 2U);
  EXPECT_EQ(matching(files, "one-gguf").size(), 1U);
  EXPECT_EQ(matching(files, "org/m-GGUF:q8_0").size(), 1U);
  EXPECT_EQ(matching(files, "org/m").size(), 0U);
}

TEST_F(Scanning, ASearchThatRunsOutOfTimeSaysSo) {
  write(snapshot("models--org--name") / "config.json", kConfig);
  EXPECT_NE(scan_models(places, [] { return true; }).ended_early, "");
}

TEST_F(Scanning, AWholeFolderHasItsFacts) {
  write(root / "m/config.json", kConfig);
  write(root / "m/model.safetensors", weights("model.a", 100));
  write(root / "m/mtp.safetensors", weights("mtp.fc.weight", 50));
  const ModelSummary found = summarise_folder((root / "m").string());
  EXPECT_TRUE(found.complete()) << found.problem;
  EXPECT_EQ(found.model_type, "qwen3_5");
  EXPECT_EQ(found.quantisation, "4-bit affine");
  EXPECT_EQ(found.head_file, "mtp.safetensors");
  EXPECT_TRUE(found.head_in_config);
  const std::string identity = found.identity;
  EXPECT_EQ(summarise_folder((root / "m").string()).identity, identity);
  write(root / "m/model.safetensors", weights("model.b", 100));
  EXPECT_NE(summarise_folder((root / "m").string()).identity, identity);
}

TEST_F(Scanning, BrokenFoldersSayWhatIsWrong) {
  const auto problem = [&](const std::string& name) {
    return summarise_folder((root / name).string()).problem;
  };
  EXPECT_NE(problem("absent"), "");
  write(root / "a/config.json", "{");
  EXPECT_NE(problem("a").find("config.json is damaged"), std::string::npos);
  write(root / "b/config.json", kConfig);
  EXPECT_EQ(problem("b"), "it has no weights");
  write(root / "b/model.safetensors", weights("w", 100, 1));
  EXPECT_NE(problem("b").find("has 164 of 165 bytes"), std::string::npos) << problem("b");
  write(root / "b/model.safetensors", "short");
  EXPECT_NE(problem("b").find("no safetensors header"), std::string::npos);
  write(root / "c/config.json", kConfig);
  write(root / "c/model.safetensors.index.json",
        R"({"weight_map":{"a":"one.safetensors","b":"../../etc/passwd"}})");
  EXPECT_NE(problem("c").find("is missing"), std::string::npos);
  write(root / "c/model.safetensors.index.json", "[]");
  EXPECT_NE(problem("c").find("index.json is damaged"), std::string::npos);
  fs::create_directories(root / "d/config.json");  // a folder of that name
  EXPECT_NE(problem("d"), "");
  fs::create_symlink("nowhere", root / "d/model.safetensors");
  EXPECT_NE(problem("d"), "");
}

TEST_F(Scanning, AnUnreadableFolderBreaksNothing) {
  write(snapshot("models--org--name") / "config.json", kConfig);
  fs::create_symlink(root / "hub", root / "hub/models--loop--loop");
  write(root / "hub/models--a--b", "a file");
  EXPECT_EQ(scan().models.size(), 1U);
}

}  // namespace
}  // namespace ft::hub::scan_test
