// The page at /, built from webui/ and embedded gzipped. It is null in a build without it
// (-DFORETOKEN_UI=OFF, or no node at configure time); then / explains how to build it. Send it with
// Content-Type text/html; charset=utf-8, Content-Encoding gzip, and the ETag and Content-Security-Policy
// below. The policy allows only the page's own script, by its hash.
#pragma once

#include <span>
#include <string_view>

namespace ft {

struct UiAsset {
  std::span<const unsigned char> gzip;  // the whole page, one gzip member
  std::string_view etag;                // strong, with its quotes
  std::string_view csp;                 // value of Content-Security-Policy
};

const UiAsset* ui_asset();

}  // namespace ft
