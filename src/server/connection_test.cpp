#include "server/connection.h"

#include <gtest/gtest.h>
#include <string>
#include <thread>

#include "tests/connection_rig.h"

namespace ft::server::connection_test {
namespace {

using test::ConnectionRig;
using test::FakeEngine;

constexpr const char* kModel = "assets/qwen3.5-tiny";

std::shared_ptr<const api::ModelInfo> model_info() {
  static const auto tokenizer = Tokenizer::load(kModel);
  auto made = std::make_shared<api::ModelInfo>(api::test::model_info());
  made->tokenizer = &*tokenizer;
  made->vocabulary = tokenizer->vocab_size(), made->context = 4096;
  return made;
}

ServerOptions quiet() {
  ServerOptions options;
  options.quiet = true;
  return options;
}

std::string post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

const std::string kHealth = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
const std::string kChunked =
    "POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
    "chunked\r\n\r\nc\r\n{\"text\":\"a\"}\r\n0\r\n";

int status_of(const std::string& answers) {
  return answers.starts_with("HTTP/1.1 ") ? std::stoi(answers.substr(9, 3)) : 0;
}

TEST(Connection, AnswersARequestHoweverItIsCut) {
  ConnectionRig rig(quiet(), FakeEngine::Mood::kAnswers, model_info());
  const std::string request = post("/v1/completions", R"({"prompt":"a"})");
  for (std::size_t cut = 0; cut <= request.size(); cut += 7) {
    const std::size_t client = rig.open();
    rig.send(client, request.substr(0, cut));
    rig.settle();
    rig.send(client, request.substr(cut) + kHealth);
    rig.settle();
    EXPECT_EQ(status_of(rig.received(client)), 200) << cut;
    EXPECT_NE(rig.received(client).find("ready"), std::string::npos) << "the next request, " << cut;
  }
  rig.finish();
  EXPECT_EQ(rig.server_context.connections, 0);
}

TEST(Connection, TextIsReadOnTheTextPoolsThread) {
  ConnectionRig rig(quiet(), FakeEngine::Mood::kAnswers, model_info());
  const std::thread::id io = std::this_thread::get_id();
  std::thread::id text = io;
  const App::Registered registered(rig.app, "mine", {}, [&] { text = std::this_thread::get_id(); });
  const std::size_t client = rig.open();
  rig.send(client, post("/v1/chat/completions/mine/cancel", "{}"));
  rig.settle();
  EXPECT_EQ(status_of(rig.received(client)), 200);
  EXPECT_NE(text, io) << "a long text would hold up every other connection";
  rig.finish();
}

TEST(Connection, WhatItsEngineThrowsEndsItAlone) {
  ConnectionRig rig(quiet(), FakeEngine::Mood::kThrows, model_info());
  const std::size_t hit = rig.open(), other = rig.open();
  rig.send(hit, post("/v1/completions", R"({"prompt":"a"})"));
  rig.settle();
  EXPECT_EQ(rig.server_context.connections, 1) << "the one that was hit has ended";
  EXPECT_EQ(rig.app.decoding(), 0U);
  rig.send(other, kHealth);
  rig.settle();
  EXPECT_EQ(status_of(rig.received(other)), 200);
  rig.finish();
}

TEST(Connection, AClientThatLeavesLeavesNothingRegistered) {
  for (const char* body : {R"({"prompt":"a"})", R"({"prompt":"a","stream":true})"}) {
    ConnectionRig rig(quiet(), FakeEngine::Mood::kWaits, model_info());
    const std::size_t client = rig.open();
    rig.send(client, post("/v1/completions", body));
    rig.settle();
    EXPECT_EQ(rig.app.decoding(), 1U);
    rig.finish();
    EXPECT_EQ(rig.app.decoding(), 0U);
    EXPECT_EQ(rig.server_context.connections, 0);
  }
}

TEST(Connection, AClientThatClosesItsSendingSideGetsItsAnswer) {
  const std::string body = R"({"prompt":"a")", streams = body + R"(,"stream":true})";
  for (const std::string& request : {kHealth, post("/v1/tokenize", R"({"text":"a"})"),
                                     post("/v1/completions", body + "}"), post("/v1/completions", streams)}) {
    ConnectionRig rig(quiet(), FakeEngine::Mood::kAnswers, model_info());
    const std::size_t client = rig.open();
    rig.send(client, request);
    rig.half_close(client);
    rig.wait_for(client, request.ends_with(streams) ? "\r\n0\r\n\r\n" : "}");
    const std::string& answer = rig.received(client);
    EXPECT_EQ(status_of(answer), 200) << answer;
    const std::size_t named = answer.find("Content-Length: "), body_at = answer.find("\r\n\r\n") + 4;
    EXPECT_EQ(named == std::string::npos, request.ends_with(streams));
    if (named != std::string::npos) {
      EXPECT_EQ(answer.size() - body_at, std::stoul(answer.substr(named + 16)));
    } else {
      EXPECT_NE(answer.find("Hello"), std::string::npos);
    }
    rig.finish();
  }
}

TEST(Connection, AClientThatClosesItsSendingSideDuringItsAnswerIsAskedByTheAnswersFirstBytes) {
  ConnectionRig rig(quiet(), FakeEngine::Mood::kWaits, model_info());
  const std::size_t client = rig.open();
  rig.send(client, post("/v1/completions", R"({"prompt":"a"})"));
  rig.settle();
  EXPECT_EQ(rig.received(client), "");
  rig.half_close(client);
  rig.wait_for(client, "HT");
  EXPECT_EQ(rig.app.decoding(), 1U) << "it reads on";
  rig.finish();
  EXPECT_EQ(rig.app.decoding(), 0U);
  EXPECT_EQ(rig.server_context.connections, 0);
}

TEST(Connection, TrailersAreBoundedAsHeadsAre) {
  ConnectionRig rig(quiet(), FakeEngine::Mood::kAnswers, model_info());
  std::string tiny;
  for (int i = 0; i < 100'000; ++i) tiny += "a:\r\n";
  for (const std::string& trailers : {"a:" + std::string(65'534, 'x') + "\r\n", tiny}) {
    const std::size_t client = rig.open();
    rig.send(client, kChunked + trailers + "\r\n");
    rig.settle();
    EXPECT_EQ(status_of(rig.received(client)), 431);
  }
  const std::size_t client = rig.open();
  rig.send(client, kChunked + "X-Sum: 1\r\n\r\n" + kHealth);
  rig.settle();
  EXPECT_EQ(status_of(rig.received(client)), 200);
  EXPECT_NE(rig.received(client).find("ready"), std::string::npos) << "they were read to their end";
  rig.finish();
}

TEST(Connection, ARefusedBodyIsNotTakenForARequest) {
  ServerOptions options = quiet();
  options.api_keys = {"secret"};
  ConnectionRig rig(options, FakeEngine::Mood::kAnswers, model_info());
  const std::size_t client = rig.open();
  rig.send(client, post("/v1/completions", kHealth));
  rig.settle();
  EXPECT_EQ(status_of(rig.received(client)), 401);
  EXPECT_EQ(rig.received(client).find("ready"), std::string::npos);
  rig.finish();
}

TEST(Connection, BodiesTogetherHaveABoundAndGiveTheirShareBack) {
  ServerOptions options = quiet();
  options.bodies_bytes = 100;
  ConnectionRig rig(options, FakeEngine::Mood::kAnswers, model_info());
  const std::string request = post("/v1/tokenize", R"({"text":")" + std::string(60, 'a') + R"("})");
  const std::size_t first = rig.open(), second = rig.open();
  rig.send(first, request.substr(0, request.size() - 1));
  rig.settle();
  rig.send(second, request);
  rig.settle();
  EXPECT_EQ(status_of(rig.received(second)), 503);
  EXPECT_NE(rig.received(second).find("Retry-After: 1"), std::string::npos);
  rig.send(first, request.substr(request.size() - 1));
  rig.settle();
  EXPECT_EQ(status_of(rig.received(first)), 200);
  EXPECT_EQ(rig.server_context.bodies.left(), 100U);
  rig.finish();
}

}  // namespace
}  // namespace ft::server::connection_test
