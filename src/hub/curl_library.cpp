#include "hub/curl_library.h"

#include <dlfcn.h>
#include <initializer_list>
#include <type_traits>

namespace ft::hub {
namespace {

bool open(Curl& curl) {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"}) {
    if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return false;
  const auto find = [library](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    return function != nullptr;
  };
  return find(curl.global_init, "curl_global_init") && find(curl.easy_init, "curl_easy_init") &&
         find(curl.setopt, "curl_easy_setopt") && find(curl.getinfo, "curl_easy_getinfo") &&
         find(curl.perform, "curl_easy_perform") && find(curl.reset, "curl_easy_reset") &&
         find(curl.cleanup, "curl_easy_cleanup") && find(curl.strerror, "curl_easy_strerror") &&
         find(curl.slist_append, "curl_slist_append") && find(curl.slist_free_all, "curl_slist_free_all") &&
         curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

}  // namespace

const Curl* curl_library() {
  static Curl library;
  static const bool opened = open(library);
  return opened ? &library : nullptr;
}

}  // namespace ft::hub
