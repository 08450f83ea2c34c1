#include "server/page.h"

namespace ft::server {
namespace {

constexpr std::string_view kNoPage =
    "foretoken is running, but this build has no web page: node was missing at configure time, or\n"
    "FORETOKEN_UI was OFF. Run tools/setup, configure again with -DFORETOKEN_UI=ON and build.\n"
    "Clients need no page: OpenAI clients use /v1, and GET /props describes the server.\n";
constexpr std::string_view kNoGzip =
    "foretoken is running. Open this address in a browser for its page. OpenAI clients use /v1,\n"
    "and GET /props describes the server.\n";

api::HttpResponse plain(std::string_view words) {
  api::HttpResponse reply;
  reply.body = words;
  reply.type = "text/plain; charset=utf-8";
  return reply;
}

/// True if If-None-Match contains our tag, possibly weakened by a proxy.
bool has_it(std::string_view tags, std::string_view etag) {
  return tags == "*" || tags.find(etag) != std::string_view::npos;
}

}  // namespace

api::HttpResponse page_reply(const HttpRequest& http_request, const UiAsset* page) {
  if (page == nullptr) return plain(kNoPage);
  if (http_request.header("accept-encoding").find("gzip") == std::string_view::npos) return plain(kNoGzip);
  api::HttpResponse reply;
  reply.type = "text/html; charset=utf-8";
  reply.headers.emplace_back("ETag", page->etag);
  reply.headers.emplace_back("Cache-Control", "no-cache");  // cache it, but revalidate
  reply.headers.emplace_back("Vary", "Accept-Encoding");
  reply.headers.emplace_back("Content-Security-Policy", page->csp);
  reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
  reply.headers.emplace_back("Referrer-Policy", "no-referrer");
  if (has_it(http_request.header("if-none-match"), page->etag)) {
    reply.status = 304;
    return reply;
  }
  reply.headers.emplace_back("Content-Encoding", "gzip");
  reply.body.assign(page->gzip.begin(), page->gzip.end());
  return reply;
}

}  // namespace ft::server
