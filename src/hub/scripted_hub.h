// A hub in memory for fuzz targets. It answers as the bytes of a script say: it cuts, refuses, redirects,
// waits, sends other ranges and breaks off; after the script's end every answer is right. Bytes under a
// correct Content-Range are the file's, unless `lied` is set. It checks every request: the token goes only to
// the endpoint, ranges are inside the file, and requests end.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "hub/pace.h"
#include "hub/repository.h"
#include "hub/settings.h"
#include "hub/transport.h"

namespace ft::hub {

inline void must(bool holds) {
  if (!holds) std::abort();
}

struct ScriptedHub {
  static constexpr const char* kEndpoint = "https://hub.example";
  std::map<std::string, std::string> files, pages;  // by path; JSON by the beginning of the path
  std::string script;
  std::size_t step = 0, requests = 0, most_requests = 0;
  bool lied = false;

  /// The next byte of the script below `bound`; 0 after its end, which is the right answer.
  std::size_t choose(std::size_t bound) {
    return step < script.size() ? static_cast<unsigned char>(script[step++]) % bound : 0;
  }
  HubSettings settings() const {
    HubSettings settings;
    settings.endpoint = kEndpoint, settings.token = "secret";
    return settings;
  }
  /// The wish to stop comes after `cancel_after` requests.
  Pace pace(std::size_t cancel_after) const {
    return {[] { return std::int64_t{0}; }, [](std::int64_t) {},
            [this, cancel_after] { return requests >= cancel_after; }};
  }
};

class ScriptedConnection final : public Connection {
 public:
  explicit ScriptedConnection(ScriptedHub& hub) : hub_(hub) {}

  Result<ResponseHeader> send(const HttpRequest& request, const BodySink& sink) override {
    must(++hub_.requests <= hub_.most_requests);
    must(request.token.empty() || request.url.starts_with(std::string(ScriptedHub::kEndpoint) + "/"));
    const std::string path = request.url.substr(request.url.find('/', sizeof("https://") - 1));
    switch (hub_.choose(16)) {
      case 1:
        return Error{Code::kBusy, "the connection died; try again later"};
      case 2:
        return Error{Code::kIo, "the certificate is not trusted"};
      case 3:
        return refusal(sink);
      case 4:
        return ResponseHeader{302, {{"location", places()[hub_.choose(places().size())]}}};
      default:
        break;
    }
    if (path.starts_with("/api/")) return page(path, sink);
    const auto file = std::ranges::find_if(hub_.files, [&](const auto& each) {
      return path.ends_with("/" + percent_encoded(each.first, true));
    });
    if (file == hub_.files.end()) return ResponseHeader{404, {{"x-error-code", "EntryNotFound"}}};
    if (request.head_only) return ResponseHeader{302, {{"location", "https://cdn.example" + path}}};
    return range(file->second, request, sink);
  }

 private:
  static const std::vector<std::string>& places() {
    static const std::vector<std::string> all = {"/", "https://cdn.example/o/n/x", "http://cdn.example/", "",
                                                 "https://hub.example.evil/o/n/model.safetensors"};
    return all;
  }

  Result<ResponseHeader> refusal(const BodySink& sink) {
    constexpr int kStatuses[] = {200, 206, 304, 400, 401, 403, 404, 408,
                                 416, 429, 451, 500, 503, 100, 0,   999};
    ResponseHeader response{kStatuses[hub_.choose(std::size(kStatuses))], {}};
    constexpr const char* kCodes[] = {"", "GatedRepo", "RepoNotFound", "EntryNotFound", "RevisionNotFound"};
    response.headers.emplace_back("x-error-code", kCodes[hub_.choose(std::size(kCodes))]);
    response.headers.emplace_back("retry-after", std::to_string(hub_.choose(256)));
    hub_.lied |= response.status == 200 || response.status == 206;
    const std::string body(hub_.choose(256) * 3, '!');
    if (!body.empty() && !sink(response, body)) return Error{Code::kCancelled, "stopped"};
    return response;
  }

  Result<ResponseHeader> page(const std::string& path, const BodySink& sink) {
    for (const auto& [beginning, text] : hub_.pages) {
      if (!path.starts_with(beginning)) continue;
      ResponseHeader response{200, {}};
      if (hub_.choose(8) == 1) {
        response.headers.emplace_back(
            "link", "</api/models/o/n/tree/" + std::to_string(hub_.choose(256)) + ">; rel=\"next\"");
      }
      if (!sink(response, text)) return Error{Code::kCancelled, "stopped"};
      return response;
    }
    return ResponseHeader{404, {{"x-error-code", "RepoNotFound"}}};
  }

  Result<ResponseHeader> range(const std::string& file, const HttpRequest& request, const BodySink& sink) {
    if (request.first < 0) {  // an API request that was redirected to a file
      ResponseHeader response{200, {}};
      if (!sink(response, file)) return Error{Code::kCancelled, "stopped"};
      return response;
    }
    must(request.first <= request.last);
    auto first = static_cast<std::size_t>(request.first), last = static_cast<std::size_t>(request.last);
    ResponseHeader response{206, {}};
    switch (hub_.choose(8)) {
      case 1:
        ++first;
        break;
      case 2:
        response.status = 200, first = 0, last = file.size();
        break;
      case 3:
        ++last;
        break;
      default:
        break;
    }
    // A listing may say more than the file has.
    std::string body = first < file.size() ? file.substr(first, last - first + 1) : std::string();
    if (response.status == 206) {
      response.headers.emplace_back(
          "content-range",
          "bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" + std::to_string(file.size()));
    }
    if (const std::size_t length = hub_.choose(8); length == 1) {
      body.resize(body.size() * hub_.choose(256) / 256);
    } else if (length == 2) {
      body += "more than was asked for";
    }
    if (hub_.choose(16) == 1 && !body.empty()) body.back() ^= 1, hub_.lied = true;
    const std::size_t piece = 1 + hub_.choose(256) * 16;
    for (std::size_t at = 0; at < body.size(); at += piece == 1 ? body.size() : piece) {
      const std::size_t size = piece == 1 ? body.size() : piece;
      if (!sink(response, std::string_view(body).substr(at, size))) return Error{Code::kCancelled, "stopped"};
    }
    if (hub_.choose(8) == 1) return Error{Code::kBusy, "the connection died; try again later"};
    return response;
  }

  ScriptedHub& hub_;
};

class ScriptedTransport final : public Transport {
 public:
  explicit ScriptedTransport(ScriptedHub& hub) : hub_(hub) {}
  std::unique_ptr<Connection> connect() override { return std::make_unique<ScriptedConnection>(hub_); }

 private:
  ScriptedHub& hub_;
};

}  // namespace ft::hub
