#include "server/router.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/late_backend.h"
#include "tests/small_engine.h"

namespace ft::server::router_test {
namespace {

using Json = nlohmann::ordered_json;

class RouterTest : public testing::Test {
 protected:
  using Fields = std::vector<std::pair<std::string, std::string>>;
  api::HttpResponse ask(const std::string& method, const std::string& path, const std::string& body = "",
                        Fields headers = {}) {
    HttpRequest http_request;
    http_request.method = method, http_request.path = path, http_request.body = body,
    http_request.headers = std::move(headers);
    http_request.id = "req_1";
    const Router router(options_, app_);
    if (std::optional<api::HttpResponse> refusal = router.check_request(http_request)) return *refusal;
    Answer answer = router.route(http_request);
    return std::get<api::HttpResponse>(std::move(answer));
  }
  static std::string header(const api::HttpResponse& reply, std::string_view name) {
    for (const auto& [key, value] : reply.headers) {
      if (key == name) return value;
    }
    return "";
  }

  ServerOptions options_;
  App app_;
};

TEST_F(RouterTest, SaysThatTheBackendIsLost) {
  ft::test::LateReport report;
  const Model model = std::move(*load_model(ft::test::kModel));
  const Tokenizer tokenizer = std::move(*Tokenizer::load(ft::test::kModel));
  const auto backend = ft::test::make_late_backend(std::move(*make_backend({})), report);
  EngineOptions options;
  options.decoder.slots = 1, options.decoder.context = 64;
  const auto engine = std::move(*Engine::start(*backend, model, tokenizer, options));
  app_.ready(*engine, nullptr);
  EXPECT_EQ(ask("GET", "/health").status, 200);
  report.lost = true;
  RequestFields fields;
  fields.prompt = {1, 2, 3}, fields.slot.max_tokens = 4;
  for (;;) {  // until the engine has reported its first failing step
    Result<Ticket> ticket = engine->submit(std::move(*Request::make(fields, engine->vocabulary())));
    if (!ticket.ok()) break;
    while (ticket->next().kind != Event::Kind::kEnd) {
    }
  }
  const api::HttpResponse health = ask("GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(Json::parse(health.body)["status"], "lost");
}

TEST_F(RouterTest, TellsHowFarTheLoadingIs) {
  app_.loading(0.25);
  const api::HttpResponse health = ask("GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(Json::parse(health.body)["progress"], 0.25);
  const api::HttpResponse chat = ask("POST", "/v1/chat/completions", "{}");
  EXPECT_EQ(chat.status, 503);
  EXPECT_TRUE(header(chat, "x-should-retry").empty()) << "clients may try again";
}

TEST_F(RouterTest, AnUnknownPathIsNotFoundAndAWrongMethodSaysWhichIsRight) {
  EXPECT_EQ(ask("GET", "/v2/models").status, 404);
  EXPECT_EQ(ask("GET", "/v1/chat/completions/").status, 404);
  const api::HttpResponse wrong = ask("GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(header(wrong, "Allow"), "POST, OPTIONS");
  EXPECT_EQ(ask("DELETE", "/health").status, 405);
}

TEST_F(RouterTest, ErrorsHaveTheShapeOfTheClientsDialect) {
  const Json openai = Json::parse(ask("GET", "/nothing").body);
  EXPECT_EQ(openai["error"]["type"], "not_found_error");
  const Json anthropic = Json::parse(ask("GET", "/nothing", "", {{"anthropic-version", "2023-06-01"}}).body);
  EXPECT_EQ(anthropic["type"], "error");
  EXPECT_EQ(anthropic["error"]["type"], "not_found_error");
  EXPECT_EQ(anthropic["request_id"], "req_1");
}

TEST_F(RouterTest, AKeyIsAskedForEverywhereButAtHealth) {
  options_.api_keys = {"secret"};
  EXPECT_EQ(ask("GET", "/v1/models").status, 401);
  EXPECT_EQ(Json::parse(ask("GET", "/v1/models").body)["error"]["code"], "invalid_api_key");
  EXPECT_EQ(ask("GET", "/health").status, 503) << "loading";
  EXPECT_NE(ask("GET", "/v1/models", "", {{"Authorization", "Bearer secret"}}).status, 401);
}

TEST_F(RouterTest, AForeignPageIsRefusedAndALocalOneIsNot) {
  EXPECT_EQ(ask("POST", "/v1/chat/completions", "{}", {{"Origin", "https://evil.example"}}).status, 403);
  EXPECT_EQ(ask("POST", "/v1/chat/completions", "{}", {{"Origin", "null"}}).status, 403);
  EXPECT_EQ(ask("OPTIONS", "/v1/chat/completions", "", {{"Origin", "http://localhost:3000"}}).status, 204);
  options_.origins = {"https://chat.example"};
  EXPECT_EQ(ask("OPTIONS", "/v1/chat/completions", "", {{"Origin", "https://chat.example"}}).status, 204);
  EXPECT_EQ(ask("POST", "/v1/chat/completions", "{}", {{"Origin", "vscode-webview://x"}}).status, 503)
      << "an editor extension is not a web page; the status says that the model loads";
}

TEST_F(RouterTest, AHostThatIsNotThisMachinesIsRefusedUntilItIsAllowed) {
  EXPECT_EQ(ask("GET", "/health", "", {{"Host", "evil.example:8080"}}).status, 403);
  EXPECT_EQ(ask("GET", "/", "", {{"Host", "evil.example"}}).status, 403) << "the page too";
  EXPECT_EQ(ask("GET", "/health", "", {{"Host", ""}}).status, 400);
  EXPECT_EQ(ask("GET", "/health", "", {{"Host", "a b"}}).status, 400);
  EXPECT_EQ(ask("GET", "/health", "", {{"Host", "localhost:8080"}}).status, 503) << "loading";
  EXPECT_EQ(ask("GET", "/health").status, 503) << "HTTP/1.0 needs none";
  options_.hosts = {"example.org"};
  EXPECT_EQ(ask("GET", "/health", "", {{"Host", "example.org"}}).status, 503);
  const Fields page{{"Host", "example.org"}, {"Origin", "https://example.org"}};
  EXPECT_EQ(ask("GET", "/health", "", page).status, 503) << "its own page through a proxy";
  options_.host = "box.lan";
  EXPECT_EQ(ask("GET", "/health", "", {{"Host", "box.lan:8080"}}).status, 503) << "the name given to --host";
}

TEST_F(RouterTest, AnOriginIsReadWhole) {
  EXPECT_EQ(ask("GET", "/health", "", {{"Origin", "http://localhost:80@evil.example"}}).status, 403);
  EXPECT_EQ(ask("GET", "/health", "", {{"Origin", "HTTPS://evil.example"}}).status, 403);
  EXPECT_EQ(ask("GET", "/health", "", {{"Origin", "nonsense"}}).status, 403);
}

TEST_F(RouterTest, TheHeadIsJudgedWithoutABody) {
  options_.api_keys = {"secret"};
  HttpRequest http_request;
  http_request.method = "POST", http_request.path = "/v1/chat/completions", http_request.id = "req_1";
  const Router router(options_, app_);
  EXPECT_EQ(router.check_request(http_request)->status, 401);
  http_request.headers = {{"x-api-key", "secret"}};
  EXPECT_EQ(router.check_request(http_request)->status, 503) << "loading";
  http_request.path = "/nothing";
  EXPECT_EQ(router.check_request(http_request)->status, 404);
  http_request.path = "/health";
  EXPECT_EQ(router.check_request(http_request)->status, 405);
}

TEST_F(RouterTest, CancellingWhatIsNotDecodedIsNotFound) {
  bool cancelled = false;
  {
    const App::Registered registered(app_, "chatcmpl-1", {7, false}, [&] { cancelled = true; });
    EXPECT_FALSE(app_.cancel("chatcmpl-1", {8, false})) << "another key's";
    EXPECT_FALSE(app_.cancel("chatcmpl-1", {}));
    EXPECT_FALSE(cancelled);
    EXPECT_TRUE(app_.cancel("chatcmpl-1", {7, false}));
    EXPECT_TRUE(cancelled);
    EXPECT_EQ(app_.decoding(), 1U);
  }
  EXPECT_FALSE(app_.cancel("chatcmpl-1", {7, true}));
  EXPECT_EQ(app_.decoding(), 0U);
}

}  // namespace
}  // namespace ft::server::router_test
