// HttpResponse: one complete HTTP answer, independent of the HTTP library.
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

/// The API family of the client: errors and listings take the form that its SDK knows.
enum class Dialect { kOpenAi, kAnthropic };

}  // namespace ft::api
