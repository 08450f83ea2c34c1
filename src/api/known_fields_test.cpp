#include "api/known_fields.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace ft::api::known_fields_test {
namespace {

std::string field_of(const std::string& body, Body kind, bool strict = false) {
  Notes notes;
  const Status status = check_members(Json::parse(body), kind, strict, notes);
  return status.ok() ? "(none)" : status.error().field;
}

TEST(KnownFields, AnUnknownMemberIsNotedOrRefusedWithTheNearestName) {
  const Json body = Json::parse(R"({"model": "m", "max_token": 5, "wild": null, "temprature": 1})");
  Notes notes;
  EXPECT_TRUE(check_members(body, Body::kChat, false, notes).ok());
  EXPECT_EQ(notes.unknown, (std::vector<std::string>{"max_token", "temprature"}));
  const Status refused = check_members(body, Body::kChat, true, notes);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "max_token");
  EXPECT_NE(refused.error().message.find("\"max_tokens\""), std::string::npos);
  EXPECT_EQ(nearest_member(Body::kMessages, "stop_sequence"), "stop_sequences");
  EXPECT_EQ(nearest_member(Body::kResponses, "max_tokens"), "max_output_tokens");
}

TEST(KnownFields, AMemberThatCarriesHistoryIsRefusedInEveryDialect) {
  for (const Body kind : {Body::kChat, Body::kCompletions, Body::kResponses, Body::kMessages}) {
    for (const char* name : {"conversation", "conversation_id", "thread", "thread_id", "container"}) {
      const std::string body = Json{{name, "x"}}.dump();
      EXPECT_EQ(field_of(body, kind), name);
      EXPECT_EQ(field_of(Json{{name, nullptr}}.dump(), kind), "(none)");
    }
  }
  EXPECT_EQ(field_of(R"({"previous_response_id": "x"})", Body::kChat), "previous_response_id");
  EXPECT_EQ(field_of(R"({"previous_response_id": "x"})", Body::kResponses), "(none)");
  EXPECT_EQ(field_of(R"({"prompt": {"id": "x"}})", Body::kResponses), "prompt");
  EXPECT_EQ(field_of(R"({"prompt": "x"})", Body::kCompletions), "(none)");
}

TEST(KnownFields, FieldsOfTheServicesThatAreIgnoredAreKnown) {
  EXPECT_EQ(field_of(R"({"store": true, "user": "u", "service_tier": "auto", "verbosity": "low"})",
                     Body::kChat, true),
            "(none)");
  EXPECT_EQ(
      field_of(R"({"cache_control": {}, "context_management": {}, "metadata": {}})", Body::kMessages, true),
      "(none)");
}

TEST(Notes, HeadersAreBoundedAndPlain) {
  Notes notes;
  EXPECT_TRUE(notes.headers().empty());
  notes.skipped["compaction"] = 2, notes.skipped["mcp_tool_use"] = 1;
  notes.unknown = {"a\r\nb", std::string(100, 'x')};
  const auto headers = notes.headers();
  ASSERT_EQ(headers.size(), 2U);
  EXPECT_EQ(headers[0].second, "compaction=2, mcp_tool_use=1");
  EXPECT_EQ(headers[1].second, "a??b, " + std::string(64, 'x'));
  notes.unknown.assign(100, "y");
  EXPECT_TRUE(notes.headers()[1].second.ends_with("y, ..."));
  EXPECT_LT(notes.headers()[1].second.size(), 100U);
}

}  // namespace
}  // namespace ft::api::known_fields_test
