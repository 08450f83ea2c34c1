#include "hub/settings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

#include "base/ascii.h"
#include "base/text_file.h"

namespace ft::hub {
namespace {

constexpr std::size_t kMaxTokenBytes = 8192;

std::string value_of(const Variables& variables, const char* name) {
  const char* value = variables(name);
  return value == nullptr ? std::string() : std::string(value);
}

/// huggingface_hub's `_is_true`.
bool is_true(const Variables& variables, const char* name) {
  const std::string value = lower(value_of(variables, name));
  return value == "1" || value == "on" || value == "yes" || value == "true";
}

std::string trimmed_value(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

/// Replaces ~ at the beginning, and $NAME or ${NAME} anywhere, as Python's expanduser and expandvars do.
std::string expanded(const std::string& text, const Variables& variables) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '~' && i == 0 && (text.size() == 1 || text[1] == '/')) {
      path += value_of(variables, "HOME");
      continue;
    }
    if (text[i] != '$') {
      path += text[i];
      continue;
    }
    const bool braced = i + 1 < text.size() && text[i + 1] == '{';
    std::size_t end = i + (braced ? 2 : 1);
    const std::size_t begin = end;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_'))
      ++end;
    const bool closed = !braced || (end < text.size() && text[end] == '}');
    const std::string name = text.substr(begin, end - begin);
    const char* value = name.empty() || !closed ? nullptr : variables(name);
    if (value == nullptr) {
      path += text[i];
      continue;
    }
    path += value;
    i = end - (braced ? 0 : 1);
  }
  return path;
}

std::string folder_of(const Variables& variables, const char* name) {
  return expanded(value_of(variables, name), variables);
}

/// $HF_HOME, else huggingface in the cache folder of the user; empty without a home.
std::string hub_home(const Variables& variables) {
  if (std::string home = folder_of(variables, "HF_HOME"); !home.empty()) return home;
  if (const std::string cache = folder_of(variables, "XDG_CACHE_HOME"); !cache.empty())
    return cache + "/huggingface";
  const std::string user = value_of(variables, "HOME");
  return user.empty() ? std::string() : user + "/.cache/huggingface";
}

/// A token is any visible text of one line: the hub has several kinds.
Status check_token(const std::string& token, const std::string& source) {
  const bool good = token.size() <= kMaxTokenBytes &&
                    std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
  if (good) return {};
  return Error{Code::kInvalid, fmt::format("the token of {} has blanks, characters outside of ASCII or more "
                                           "than {} bytes; write the token alone",
                                           source, kMaxTokenBytes)};
}

Status read_token(const Variables& variables, const std::string& home, HubSettings& settings) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    settings.token = trimmed_value(value_of(variables, name));
    settings.token_source = name;
    if (!settings.token.empty()) return check_token(settings.token, name);
  }
  settings.token_source.clear();
  if (is_true(variables, "HF_HUB_DISABLE_IMPLICIT_TOKEN")) return {};
  std::string path = folder_of(variables, "HF_TOKEN_PATH");
  if (path.empty() && !home.empty()) path = home + "/token";
  std::ifstream file(path, std::ios::binary);
  if (path.empty() || !file) return {};
  std::string text(kMaxTokenBytes + 2, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  settings.token = trimmed_value(without_byte_order_mark(text));
  if (!settings.token.empty()) settings.token_source = path;
  return check_token(settings.token, path);
}

int seconds(const Variables& variables, const char* name, int otherwise) {
  constexpr int kMax = 3600;
  const std::string text = value_of(variables, name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value > 0 ? std::min(value, kMax) : otherwise;
}

}  // namespace

std::string origin_of(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos || scheme == 0) return {};
  const std::size_t end = std::min(url.find_first_of("/?#", scheme + 3), url.size());
  std::string origin = lower(url.substr(0, end));
  if (origin.size() == scheme + 3 || origin.find('@') != std::string::npos) return {};
  const std::string usual = origin.starts_with("https://") ? ":443" : ":80";
  if (origin.ends_with(usual)) origin.resize(origin.size() - usual.size());
  return origin;
}

bool is_allowed_url(const std::string& url) {
  const std::string origin = origin_of(url);
  if (origin.starts_with("https://")) return true;
  if (!origin.starts_with("http://")) return false;
  std::string host = origin.substr(std::string_view("http://").size());
  if (const std::size_t colon = host.rfind(':'); colon != std::string::npos && !host.ends_with(']'))
    host.resize(colon);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

Result<HubSettings> read_hub_settings(const Variables& variables) {
  HubSettings settings;
  if (const std::string named = trimmed_value(value_of(variables, "HF_ENDPOINT")); !named.empty()) {
    settings.endpoint = named;
    while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  }
  if (!is_allowed_url(settings.endpoint)) {
    return Error{Code::kInvalid, fmt::format("HF_ENDPOINT: expected https://HOST (or http:// on this "
                                             "machine), found '{}'; correct it or unset it",
                                             settings.endpoint)};
  }
  const std::string home = hub_home(variables);
  settings.cache = folder_of(variables, "HF_HUB_CACHE");
  if (settings.cache.empty()) settings.cache = folder_of(variables, "HUGGINGFACE_HUB_CACHE");
  if (settings.cache.empty() && !home.empty()) settings.cache = home + "/hub";
  if (settings.cache.empty()) {
    return Error{Code::kInvalid, "there is no folder for models: HOME is not set; set HF_HUB_CACHE"};
  }
  FT_TRY(read_token(variables, home, settings));
  settings.offline = is_true(variables, "HF_HUB_OFFLINE") || is_true(variables, "TRANSFORMERS_OFFLINE");
  settings.symlinks = !is_true(variables, "HF_HUB_DISABLE_SYMLINKS");
  settings.progress = !is_true(variables, "HF_HUB_DISABLE_PROGRESS_BARS");
  constexpr int kUsualSilence = 10;
  settings.silence_s = seconds(variables, "HF_HUB_DOWNLOAD_TIMEOUT", kUsualSilence);
  for (const char* name : {"CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"}) {
    if (settings.ca_file.empty()) settings.ca_file = folder_of(variables, name);
  }
  return settings;
}

}  // namespace ft::hub
