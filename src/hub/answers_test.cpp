#include "hub/answers.h"

#include <gtest/gtest.h>

#include "hub/listing.h"

namespace ft::hub::answers_test {
namespace {

ResponseHeader response(int status, std::vector<std::pair<std::string, std::string>> headers = {}) {
  return {status, std::move(headers)};
}

const Asked kAsked{"https://h", "org/name", "main", "", false, false};

TEST(Answers, EachStatusHasItsVerdict) {
  EXPECT_EQ(classify(response(200), "", kAsked).verdict, Verdict::kGood);
  EXPECT_EQ(classify(response(302, {{"location", "/x"}}), "", kAsked).verdict, Verdict::kRedirect);
  EXPECT_EQ(classify(response(302), "", kAsked).verdict, Verdict::kRefused);
  for (const int passing : {408, 500, 502, 503, 504, 429})
    EXPECT_EQ(classify(response(passing), "", kAsked).verdict, Verdict::kRepeat) << passing;
  for (const int final : {400, 401, 403, 404, 410, 451})
    EXPECT_EQ(classify(response(final), "", kAsked).verdict, Verdict::kRefused) << final;
  EXPECT_EQ(classify(response(416), "", kAsked).verdict, Verdict::kNoRange);
}

TEST(Answers, EveryAnswerThatIsNotGoodHasASentence) {
  for (int status = 100; status < 600; ++status) {
    const Outcome outcome = classify(response(status, {{"location", "/x"}}), "", kAsked);
    EXPECT_EQ(outcome.error.message.empty(), outcome.verdict == Verdict::kGood) << status;
  }
}

TEST(Answers, ASignedUrlIsPlacedAgain) {
  Asked asked = kAsked;
  asked.by_signed_url = true;
  const Outcome outcome = classify(response(403), "Request has\nexpired", asked);
  EXPECT_EQ(outcome.verdict, Verdict::kPlaceAgain);
  EXPECT_NE(outcome.error.message.find("Request has expired"), std::string::npos);
}

TEST(Answers, ATokenThatIsRefusedIsLeftOut) {
  Asked asked = kAsked;
  asked.sent_token = true;
  EXPECT_EQ(classify(response(401), "", asked).verdict, Verdict::kWithoutToken);
  EXPECT_EQ(classify(response(401, {{"x-error-code", "GatedRepo"}}), "", asked).verdict, Verdict::kRefused);
}

TEST(Answers, ARefusalSpeaksOfTheTokenThatWasSent) {
  for (const bool sent : {false, true}) {
    for (const char* code : {"GatedRepo", ""}) {
      Asked asked = kAsked;
      asked.sent_token = sent;
      const Outcome outcome =
          classify(response(403, {{"x-error-code", code}, {"x-error-message", "not in the authorized list"}}),
                   "", asked);
      const std::string& said = outcome.error.message;
      EXPECT_EQ(said.find("in HF_TOKEN or with `hf auth login`") != std::string::npos, !sent) << said;
      EXPECT_EQ(said.find("your token") != std::string::npos, sent) << said;
      EXPECT_TRUE(!sent || said.find("not in the authorized list") != std::string::npos) << said;
    }
  }
}

TEST(Listing, TheGateIsOneOfTwo) {
  EXPECT_EQ(parse_gate(R"({"gated": "manual"})"), "manual");
  EXPECT_EQ(parse_gate(R"({"gated": "auto"})"), "auto");
  EXPECT_EQ(parse_gate(R"({"gated": true})"), "auto");
  for (const char* open : {R"({"gated": false})", "{}", "[]", "x", R"({"gated": null})"})
    EXPECT_EQ(parse_gate(open), "") << open;
}

TEST(Answers, TheServerSaysHowLongToWait) {
  EXPECT_EQ(wait_seconds(response(429, {{"ratelimit", "\"api\";r=0;t=55"}})), 56);
  EXPECT_EQ(wait_seconds(response(429, {{"ratelimit", "\"api\";r=3;t=55"}, {"retry-after", "7"}})), 7);
  EXPECT_EQ(wait_seconds(response(429, {{"retry-after", "soon"}})), std::nullopt);
  EXPECT_EQ(classify(response(429, {{"retry-after", "120"}}), "", kAsked).verdict, Verdict::kRepeat);
  EXPECT_EQ(classify(response(429, {{"retry-after", "121"}}), "", kAsked).verdict, Verdict::kRefused);
  EXPECT_EQ(classify(response(503, {{"retry-after", "120"}}), "", kAsked).wait_s, 120);
  EXPECT_EQ(classify(response(503, {{"retry-after", "3600"}}), "", kAsked).verdict, Verdict::kRefused);
}

TEST(Answers, TheRequestIsNamedForTheServersOperators) {
  const Outcome outcome = classify(response(500, {{"x-request-id", "Root=1-abc"}}), "", kAsked);
  EXPECT_NE(outcome.error.message.find("Root=1-abc"), std::string::npos);
}

TEST(Answers, ARangeMustBeExact) {
  EXPECT_TRUE(is_range(response(206, {{"content-range", "bytes 0-9/10"}}), 0, 9, 10));
  for (const char* wrong : {"bytes 0-8/10", "bytes 0-9/11", "bytes 0-9/*", "0-9/10", ""})
    EXPECT_FALSE(is_range(response(206, {{"content-range", wrong}}), 0, 9, 10)) << wrong;
}

TEST(Listing, TheNextPageIsAtTheEndpoint) {
  EXPECT_EQ(next_page("<https://other/api/models/a/b/tree/c?cursor=1>; rel=\"next\"", "https://mirror/hf"),
            "https://mirror/hf/api/models/a/b/tree/c?cursor=1");
  EXPECT_EQ(next_page("<https://other/api/x>; rel=\"prev\"", "https://m"), "");
  EXPECT_EQ(next_page("<https://o/api/x>; rel=\"prev\", <https://o/api/y>; rel=\"next\"", "https://m"),
            "https://m/api/y");
  EXPECT_EQ(next_page("nonsense", "https://m"), "");
}

TEST(Listing, FilesAreNamedByTheirContent) {
  const std::string sha1(40, 'a'), sha256(64, 'b');
  const auto files =
      parse_tree("[{\"type\":\"file\",\"path\":\"a\",\"size\":1,\"oid\":\"" + sha1 +
                 "\"},{\"type\":\"directory\",\"path\":\"d\"},{\"type\":\"file\",\"path\":\"b\",\"size\":2,"
                 "\"oid\":\"" +
                 sha1 + "\",\"lfs\":{\"oid\":\"" + sha256 + "\",\"size\":3}}]");
  ASSERT_TRUE(files.ok());
  ASSERT_EQ(files->size(), 2U);
  EXPECT_EQ((*files)[0].etag(), sha1);
  EXPECT_EQ((*files)[1].etag(), sha256);
  EXPECT_EQ((*files)[1].size, 3);
}

TEST(Listing, AFileWithoutSizeOrHashIsRefused) {
  for (const char* entry :
       {R"({"type":"file","path":"a","size":-1,"oid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})",
        R"({"type":"file","path":"a","size":1})",
        R"({"type":"file","path":"a","size":1e30,"oid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})",
        R"({"type":"file","path":"../a","size":1,"oid":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})"}) {
    EXPECT_FALSE(parse_tree(std::string("[") + entry + "]").ok()) << entry;
  }
}

}  // namespace
}  // namespace ft::hub::answers_test
