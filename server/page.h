// What stands at /: the embedded page, gzipped as it is, or words on how to get one. Pure. Thread: any.
// Cost: a copy of the page (200 kB) unless the browser has it already (If-None-Match: 304). Errors: none.
#pragma once

#include "api/http_response.h"
#include "server/http_request.h"
#include "server/ui_asset.h"

namespace ft::server {

/// `page` is null in a build without it. A client that takes no gzip gets a sentence instead.
api::HttpResponse page_reply(const HttpRequest& http_request, const UiAsset* page);

}  // namespace ft::server
