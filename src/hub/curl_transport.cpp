// libcurl's easy interface, one handle a connection. Proxies (https_proxy, no_proxy) are libcurl's own.
// Certificates are always verified.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>

#include "base/ascii.h"
#include "hub/curl_library.h"
#include "hub/transport.h"

namespace ft::hub {
namespace {

constexpr long kConnectTimeoutS = 10;
constexpr std::size_t kMaxHeaders = 200, kMaxHeaderBytes = 16384;

struct Answer {
  ResponseHeader response;
  const BodySink* sink = nullptr;
  const Pace* pace = nullptr;
  bool stopped = false, flooded = false;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

std::size_t on_header(char* bytes, std::size_t one, std::size_t count, void* self) {
  Answer& answer = *static_cast<Answer*>(self);
  const std::string_view line(bytes, one * count);
  if (line.starts_with("HTTP/")) {  // also of a proxy's own answer, and of 100 Continue
    answer.response = {};
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos)
      std::from_chars(line.data() + space + 1, line.data() + line.size(), answer.response.status);
    return line.size();
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return line.size();
  if (answer.response.headers.size() >= kMaxHeaders || line.size() > kMaxHeaderBytes) {
    answer.flooded = true;
    return 0;
  }
  answer.response.headers.emplace_back(lower(line.substr(0, colon)), trimmed(line.substr(colon + 1)));
  return line.size();
}

std::size_t on_body(char* bytes, std::size_t one, std::size_t count, void* self) {
  Answer& answer = *static_cast<Answer*>(self);
  if ((*answer.sink)(answer.response, {bytes, one * count})) return one * count;
  answer.stopped = true;
  return 0;
}

int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Answer*>(self)->pace->cancelled() ? 1 : 0;
}

/// Temporary errors; the user must act on the others.
bool may_pass(CURLcode code) {
  return code != CURLE_PEER_FAILED_VERIFICATION && code != CURLE_SSL_CACERT_BADFILE &&
         code != CURLE_UNSUPPORTED_PROTOCOL && code != CURLE_URL_MALFORMAT &&
         code != CURLE_COULDNT_RESOLVE_PROXY;
}

class CurlConnection final : public Connection {
 public:
  CurlConnection(const Curl& library, const HubSettings& settings, const Pace& pace)
      : library_(library), settings_(settings), pace_(pace), curl_(library.easy_init()) {}
  ~CurlConnection() override { library_.cleanup(curl_); }
  CurlConnection(const CurlConnection&) = delete;
  CurlConnection& operator=(const CurlConnection&) = delete;

  Result<ResponseHeader> send(const HttpRequest& request, const BodySink& sink) override {
    if (curl_ == nullptr)
      return Error{Code::kExhausted, "libcurl cannot start; free memory by closing other programs"};
    Answer answer;
    answer.sink = &sink, answer.pace = &pace_;
    char detail[CURL_ERROR_SIZE] = "";
    curl_slist* headers = library_.slist_append(nullptr, "Accept-Encoding: identity");
    if (!request.token.empty())
      headers = library_.slist_append(headers, ("Authorization: Bearer " + request.token).c_str());
    prepare(request, answer, detail, headers);
    const CURLcode code = library_.perform(curl_);
    library_.slist_free_all(headers);
    if (code == CURLE_OK) return std::move(answer.response);
    if (answer.stopped || (code == CURLE_ABORTED_BY_CALLBACK && !answer.flooded))
      return Error{Code::kCancelled, "stopped"};
    return failure(request, code, answer.flooded ? "too many or too long headers" : detail);
  }

 private:
  void prepare(const HttpRequest& request, Answer& answer, char* detail, curl_slist* headers) {
    library_.reset(curl_);  // keeps the connection
    library_.setopt(curl_, CURLOPT_URL, request.url.c_str());
    library_.setopt(curl_, CURLOPT_HTTPHEADER, headers);
    library_.setopt(curl_, CURLOPT_USERAGENT, "foretoken");
    library_.setopt(curl_, CURLOPT_NOSIGNAL, 1L);
    library_.setopt(curl_, CURLOPT_FOLLOWLOCATION, 0L);
    library_.setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    // Parallel ranges need separate connections.
    library_.setopt(curl_, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    library_.setopt(curl_, CURLOPT_CONNECTTIMEOUT, kConnectTimeoutS);
    library_.setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, 1L);
    library_.setopt(curl_, CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings_.silence_s));
    library_.setopt(curl_, CURLOPT_ERRORBUFFER, detail);
    library_.setopt(curl_, CURLOPT_HEADERFUNCTION, on_header);
    library_.setopt(curl_, CURLOPT_HEADERDATA, &answer);
    library_.setopt(curl_, CURLOPT_WRITEFUNCTION, on_body);
    library_.setopt(curl_, CURLOPT_WRITEDATA, &answer);
    library_.setopt(curl_, CURLOPT_NOPROGRESS, 0L);
    library_.setopt(curl_, CURLOPT_XFERINFOFUNCTION, on_progress);
    library_.setopt(curl_, CURLOPT_XFERINFODATA, &answer);
    constexpr long kBufferBytes = 256L * 1024;
    library_.setopt(curl_, CURLOPT_BUFFERSIZE, kBufferBytes);
    if (!settings_.ca_file.empty()) library_.setopt(curl_, CURLOPT_CAINFO, settings_.ca_file.c_str());
    if (request.head_only) library_.setopt(curl_, CURLOPT_NOBODY, 1L);
    if (request.first >= 0) {
      const std::string range = fmt::format("{}-{}", request.first, request.last);
      library_.setopt(curl_, CURLOPT_RANGE, range.c_str());
    }
  }

  Error failure(const HttpRequest& request, CURLcode code, std::string_view detail) const {
    std::string what(detail.empty() ? library_.strerror(code) : detail);
    long proxy_status = 0;  // of its answer to CONNECT; 0: none was sent
    library_.getinfo(curl_, CURLINFO_HTTP_CONNECTCODE, &proxy_status);
    if (proxy_status >= 400 && proxy_status < 500) {
      return {Code::kIo,
              fmt::format("{} cannot be reached: the proxy refuses the connection with status {}; set "
                          "https_proxy=http://USER:PASSWORD@HOST:PORT, or no_proxy to go around it",
                          origin_of(request.url), proxy_status)};
    }
    if (code == CURLE_OPERATION_TIMEDOUT) what = "it was silent for too long";
    if (code == CURLE_PARTIAL_FILE) what = "the answer was shorter than announced";
    if (code == CURLE_PEER_FAILED_VERIFICATION) {
      what += "; if a proxy of your network inspects TLS, give its certificate with --ca-file FILE";
    }
    return {may_pass(code) ? Code::kBusy : Code::kIo,
            fmt::format("{} cannot be reached: {}", origin_of(request.url), what)};
  }

  const Curl& library_;
  const HubSettings& settings_;
  const Pace& pace_;
  CURL* curl_;
};

class CurlTransport final : public Transport {
 public:
  CurlTransport(const Curl& library, HubSettings settings, const Pace& pace)
      : library_(library), settings_(std::move(settings)), pace_(pace) {}
  std::unique_ptr<Connection> connect() override {
    return std::make_unique<CurlConnection>(library_, settings_, pace_);
  }

 private:
  const Curl& library_;
  HubSettings settings_;
  const Pace& pace_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_transport(const HubSettings& settings, const Pace& pace) {
  const Curl* library = curl_library();
  if (library == nullptr) {
    return Error{
        Code::kUnsupported,
        "models are fetched with libcurl, which is not on this machine: install the package libcurl4, "
        "or run `hf download ORG/NAME`, which fills the same cache"};
  }
  return std::unique_ptr<Transport>(std::make_unique<CurlTransport>(*library, settings, pace));
}

}  // namespace ft::hub
