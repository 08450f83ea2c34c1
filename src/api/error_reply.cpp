#include "api/error_reply.h"

#include <nlohmann/json.hpp>

#include "api/fields.h"

namespace ft::api {
namespace {

int status_of(Code code) {
  switch (code) {
    case Code::kInvalid:
    case Code::kUnsupported:
    case Code::kTooLong:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kBusy:
      return 429;
    case Code::kCancelled:
      return 503;
    case Code::kExhausted:
      return 507;
    case Code::kCorrupt:
    case Code::kIo:
      return 500;
  }
  return 500;
}

const char* openai_kind(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

const char* anthropic_kind(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

Json openai_code(const Error& error, int status) {
  if (error.code == Code::kTooLong) return "context_length_exceeded";
  if (status == 401) return "invalid_api_key";
  if (error.code == Code::kNotFound && error.field == "model") return "model_not_found";
  if (status == 429) return "rate_limit_exceeded";
  return nullptr;
}

}  // namespace

HttpResponse error_reply(Dialect dialect, const Error& error, const std::string& request_id, int status) {
  HttpResponse reply;
  reply.status = status != 0 ? status : status_of(error.code);
  if (dialect == Dialect::kAnthropic && reply.status == 503) reply.status = 529;
  if (dialect == Dialect::kOpenAi) {
    const Json field = error.field.empty() ? Json() : Json(error.field);
    reply.body = dump(Json{{"error",
                            {{"message", error.message},
                             {"type", openai_kind(reply.status)},
                             {"param", field},
                             {"code", openai_code(error, reply.status)}}}});
  } else {
    Json inner{{"type", anthropic_kind(reply.status)}, {"message", error.message}};
    // The SDK sends the whole conversation when it reads this code.
    if (error.field == "thread") inner["details"] = Json{{"error_code", "thread_unsupported_request"}};
    reply.body = dump(Json{{"type", "error"},
                           {"error", std::move(inner)},
                           {"request_id", request_id.empty() ? Json() : Json(request_id)}});
  }
  if (reply.status == 429) {
    reply.headers.emplace_back("Retry-After", "1");
  } else if (reply.status != 503 && reply.status != 529) {
    reply.headers.emplace_back("x-should-retry", "false");
  }
  return reply;
}

}  // namespace ft::api
