// The page that stands at /, built from webui/ and embedded gzipped; null in a build without it
// (-DFORETOKEN_UI=OFF, or no node at configure time): then / explains how to build it. Static data, any
// thread, no cost, no errors. Send it with Content-Type text/html; charset=utf-8, Content-Encoding gzip, the
// ETag and the Content-Security-Policy given here: the policy names the page's one script by its hash, and no
// other runs.
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
