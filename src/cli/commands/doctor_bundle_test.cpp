#include "cli/commands/doctor_bundle.h"

#include <gtest/gtest.h>
#include <random>

namespace ft::cli::doctor_bundle_test {
namespace {

const Private kPerson{"/home/erika", "erika", "bluebox"};

TEST(Bundle, SecretsDoNotPass) {
  EXPECT_EQ(scrubbed("/home/erika/models/x", kPerson), "~/models/x");
  EXPECT_EQ(scrubbed("token hf_AbC123 end", kPerson), "token [hidden] end");
  EXPECT_EQ(scrubbed("Authorization: Bearer a.b-c/d=", kPerson), "Authorization: [hidden]");
  EXPECT_EQ(scrubbed("https://me:pw@host/a?X-Sig=1", kPerson), "https://[host]");
  EXPECT_EQ(scrubbed("https://me:pw@huggingface.co/a?X-Sig=1", kPerson), "https://huggingface.co/a");
  EXPECT_EQ(scrubbed("cannot reach http://hub.corp.lan:8080/models, retry", kPerson),
            "cannot reach http://[host], retry");
  EXPECT_EQ(scrubbed("/data/project-x/weights/model.safetensors: cannot open", kPerson),
            "[path].safetensors: cannot open");
  EXPECT_EQ(scrubbed("see /proc/meminfo and '/mnt/my secret/b'", kPerson), "see /proc/meminfo and '[path]'");
  EXPECT_EQ(scrubbed("write to a.b@example.org now", kPerson), "write to [mail] now");
  EXPECT_EQ(scrubbed("erika at bluebox", kPerson), "[user] at [host]");
  EXPECT_EQ(scrubbed("/home/otto/x and /Users/ida", kPerson), "[path]") << "a path may contain blanks";
  EXPECT_EQ(scrubbed("nothing to hide: 3@2, a/b", kPerson), "nothing to hide: 3@2, a/b");
}

TEST(Bundle, PlantedSecretsDoNotPassAmongAnyText) {
  std::mt19937 random(1);
  const std::string letters = "ab /:@.?=\"'\n_-hf";
  const std::vector<std::string> secrets = {"hf_Geheim99",
                                            "https://u:Geheim99@h.org/x",
                                            "https://h.org/?k=Geheim99",
                                            "http://Geheim99.lan/x",
                                            "http://h.org/Geheim99/x",
                                            "/srv/Geheim99/x",
                                            "Bearer Geheim99",
                                            "/home/erika/",
                                            "Geheim99.x@mail.org"};
  for (int i = 0; i < 20'000; ++i) {
    const auto noise = [&] {
      std::string text;
      for (std::size_t n = random() % 12; n > 0; --n) text += letters[random() % letters.size()];
      return text;
    };
    const std::string text = noise() + " " + secrets[random() % secrets.size()] + " " + noise();
    const std::string clean = scrubbed(text, kPerson);
    ASSERT_EQ(clean.find("Geheim99"), std::string::npos) << text << " -> " << clean;
    ASSERT_EQ(clean.find("erika"), std::string::npos) << text << " -> " << clean;
  }
}

}  // namespace
}  // namespace ft::cli::doctor_bundle_test
