// The page at /: embedded and gzipped, or instructions for building it. If-None-Match gives 304 if the
// browser already has the page (200 kB).
#pragma once

#include "api/http_response.h"
#include "server/http_request.h"
#include "server/ui_asset.h"

namespace ft::server {

/// `page` is null in a build without it. A client that does not accept gzip gets a sentence instead.
api::HttpResponse page_reply(const HttpRequest& http_request, const UiAsset* page);

}  // namespace ft::server
