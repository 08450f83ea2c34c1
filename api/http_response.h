// A reply: one whole HTTP answer without the HTTP. Owner: a value. Thread: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace ft::api {

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;
};

/// Who wrote the client: errors and listings have the shape that its SDK knows.
enum class Dialect { kOpenAi, kAnthropic };

}  // namespace ft::api
