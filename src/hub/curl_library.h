// libcurl, opened at run time so that a program on a machine without it does everything but fetch.
#pragma once

#include <curl/curl.h>

namespace ft::hub {

/// The functions of libcurl.so.4, whose interface has not changed since 2006.
struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_setopt) setopt = nullptr;
  decltype(&curl_easy_getinfo) getinfo = nullptr;
  decltype(&curl_easy_perform) perform = nullptr;
  decltype(&curl_easy_reset) reset = nullptr;
  decltype(&curl_easy_cleanup) cleanup = nullptr;
  decltype(&curl_easy_strerror) strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
};

/// Opened on the first call; null if the library is absent or cannot start. Thread-safe.
const Curl* curl_library();

}  // namespace ft::hub
