#include <gtest/gtest.h>
#include <map>

#include "hub/repository.h"
#include "hub/settings.h"

namespace ft::hub::names_test {
namespace {

TEST(Repository, NamesComeBack) {
  for (const char* text : {"org/name", "a/b@v1", "Org_1/n.a-me@refs/pr/1", "a/b:Q4_K_M", "a/b@dev:Q8_0"}) {
    const auto parsed = parse_repository(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(parsed->text(), text);
  }
  EXPECT_EQ(parse_repository("a/b")->revision, "main");
  EXPECT_EQ(parse_repository("Org/Name")->cache_folder(), "models--Org--Name");
}

TEST(Repository, OtherTextIsRefused) {
  for (const char* text : {"", "name", "a/b/c", "/a/b", "../b", "a/..", "a/b--c", "a/b-", "a b/c", "a/b@",
                           "a/b@..", "a/b@x y", "a/b:", "-a/b", "a/b@/x"}) {
    EXPECT_FALSE(parse_repository(text).ok()) << text;
  }
}

TEST(Repository, TheAddressOfAPageIsAName) {
  const std::string hub = "https://hub.example/mirror";
  const std::map<std::string, std::string> names = {
      {"org/name", "org/name"},
      {"https:/x", "https:/x"},
      {hub + "/org/name", "org/name"},
      {"HTTPS://HUB.example:443/mirror/org/name/", "org/name"},
      {hub + "/org/name/tree/v1", "org/name@v1"},
      {hub + "/org/name/tree/refs%2Fpr%2F3", "org/name@refs/pr/3"},
      {hub + "/org/name/tree/v%-1", "org/name@v%-1"},  // not an escape
      {hub + "/org/name/blob/main/m-Q4_K_M.gguf", "org/name:m-Q4_K_M"},
      {hub + "/org/name/resolve/v1/sub/m-Q8_0.gguf?download=true", "org/name@v1:m-Q8_0"},
      {hub + "/org/name?library=x#y", "org/name"}};
  for (const auto& [address, name] : names) {
    const auto found = name_of_address(address, hub);
    ASSERT_TRUE(found.ok()) << address << ": " << found.error().message;
    EXPECT_EQ(*found, name);
  }
  for (const char* other :
       {"https://hub.example/org/name", "https://other.example/mirror/org/name",
        "http://hub.example/mirror/org/name", "https://hub.example/mirror/org",
        "https://hub.example/mirror/org/name/discussions/1", "https://hub.example/mirror/datasets/org/name",
        "https://hub.example/mirror/%00/%"}) {
    EXPECT_FALSE(name_of_address(other, hub).ok()) << other;
  }
}

TEST(Repository, FilePathsStayInside) {
  for (const char* good : {"a", "a/b.json", ".gitattributes", "a b"}) EXPECT_TRUE(check_file_path(good).ok());
  for (const char* bad : {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a\\b", "a\nb"})
    EXPECT_FALSE(check_file_path(bad).ok()) << bad;
  EXPECT_FALSE(check_file_path(std::string(256, 'a')).ok());
}

TEST(Repository, SnapshotsAreNamedByTheirRepository) {
  EXPECT_EQ(name_of_snapshot("/c/models--org--name/snapshots/abc/"), "name");
  EXPECT_EQ(name_of_snapshot("/c/models/name"), "");
  EXPECT_EQ(name_of_snapshot("x"), "");
}

TEST(Repository, PercentEncodingKeepsSlashesOnlyIfAsked) {
  EXPECT_EQ(percent_encoded("refs/pr 1", false), "refs%2Fpr%201");
  EXPECT_EQ(percent_encoded("a/\xC3\xA4", true), "a/%C3%A4");
}

class Settings : public testing::Test {
 protected:
  Result<HubSettings> read() {
    return read_hub_settings([this](const std::string& name) {
      const auto at = variables.find(name);
      return at == variables.end() ? nullptr : at->second.c_str();
    });
  }
  std::map<std::string, std::string> variables = {{"HOME", "/home/me"}};
};

TEST_F(Settings, TheCacheFollowsTheVariablesInTheirOrder) {
  EXPECT_EQ(read()->cache, "/home/me/.cache/huggingface/hub");
  variables["XDG_CACHE_HOME"] = "/x";
  EXPECT_EQ(read()->cache, "/x/huggingface/hub");
  variables["HF_HOME"] = "~/hf";
  EXPECT_EQ(read()->cache, "/home/me/hf/hub");
  variables["HUGGINGFACE_HUB_CACHE"] = "${HOME}/old";
  EXPECT_EQ(read()->cache, "/home/me/old");
  variables["HF_HUB_CACHE"] = "$HOME/new";
  EXPECT_EQ(read()->cache, "/home/me/new");
}

TEST_F(Settings, OfflineIsWhatHuggingfaceHubTakesForTrue) {
  for (const char* yes : {"1", "ON", "Yes", "true"}) {
    variables["HF_HUB_OFFLINE"] = yes;
    EXPECT_TRUE(read()->offline) << yes;
  }
  variables["HF_HUB_OFFLINE"] = "0";
  EXPECT_FALSE(read()->offline);
}

TEST_F(Settings, TheEndpointIsHttpsOrOnThisMachine) {
  for (const char* good : {"https://h", "https://h/prefix/", "http://127.0.0.1:8080", "http://localhost"}) {
    variables["HF_ENDPOINT"] = good;
    ASSERT_TRUE(read().ok()) << good;
    EXPECT_FALSE(read()->endpoint.ends_with('/'));
  }
  for (const char* bad : {"http://example.org", "h", "ftp://h", "https://", "http://127.0.0.1.example.org",
                          "https://user:pass@h"}) {
    variables["HF_ENDPOINT"] = bad;
    EXPECT_FALSE(read().ok()) << bad;
  }
}

TEST_F(Settings, ATokenIsOneLineOfVisibleText) {
  variables["HF_TOKEN"] = " hf_abc\n";
  EXPECT_EQ(read()->token, "hf_abc");
  variables["HF_TOKEN"] = "two words";
  ASSERT_FALSE(read().ok());
  EXPECT_EQ(read().error().message.find("two words"), std::string::npos);
}

TEST(Origin, LeavesThePathAndTheUsualPortAway) {
  EXPECT_EQ(origin_of("HTTPS://Host:443/a?b"), "https://host");
  EXPECT_EQ(origin_of("http://h:80"), "http://h");
  EXPECT_EQ(origin_of("http://h:81/x"), "http://h:81");
  EXPECT_EQ(origin_of("/relative"), "");
}

}  // namespace
}  // namespace ft::hub::names_test
