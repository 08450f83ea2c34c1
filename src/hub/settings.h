// How the hub is reached: the variables of huggingface_hub, with the same meaning
// (huggingface_hub/constants.py). The command line passes the environment in; nothing here reads it.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace ft::hub {

inline constexpr const char* kDefaultEndpoint = "https://huggingface.co";

/// The value of an environment variable, or null.
using Variables = std::function<const char*(const std::string& name)>;

struct HubSettings {
  std::string endpoint = kDefaultEndpoint;  // no slash at its end; may have a path
  std::string token;                        // empty: none. Never printed
  std::string token_source;                 // "HF_TOKEN" or the file, for messages
  std::string cache;                        // the folder of models--ORG--NAME
  std::string ca_file;                      // certificates to trust; empty: the system's
  bool offline = false;                     // no request at all
  bool symlinks = true;                     // in snapshots; false: a copy of each file
  bool progress = true;
  int silence_s = 10;  // a connection without a byte for this long is closed
};

/// kInvalid if there is no folder for the cache, or the endpoint is neither https nor http on this machine.
Result<HubSettings> read_hub_settings(const Variables& variables);

/// The part of a URL before its path, "https://host:port" in lower case; empty if it has none.
std::string origin_of(const std::string& url);
/// Whether requests to `url` are allowed: https, or http to this machine.
bool is_allowed_url(const std::string& url);

}  // namespace ft::hub
