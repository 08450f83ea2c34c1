#include "cli/commands/doctor_bundle.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

#include "base/json.h"
#include "cli/commands/model_path.h"
#include "cli/library/library.h"
#include "hub/summary.h"
#include "models/synthetic/model.h"

namespace ft::cli {
namespace {

using Json = nlohmann::ordered_json;

/// Variables whose presence matters; their values are never read.
constexpr const char* kVariables[] = {
    "HF_ENDPOINT",       "HF_HOME",           "HF_HUB_CACHE",     "HF_TOKEN",
    "HF_HUB_OFFLINE",    "https_proxy",       "HTTPS_PROXY",      "no_proxy",
    "XDG_CACHE_HOME",    "FORETOKEN_MODEL",   "FORETOKEN_MODELS", "FORETOKEN_CONFIG",
    "FORETOKEN_BACKEND", "FORETOKEN_THREADS", "OMP_NUM_THREADS",  "CUDA_VISIBLE_DEVICES"};
/// Keys of config.json whose values say nothing about a user.
constexpr const char* kConfigKeys[] = {"model_type",          "architectures",       "text_config",
                                       "quantization",        "quantization_config", "tie_word_embeddings",
                                       "hidden_size",         "num_hidden_layers",   "mtp_num_hidden_layers",
                                       "mlx_lm_extra_tensors"};

/// Keys of config.json that hold free text, in any table.
const std::set<std::string, std::less<>> kFreeKeys = {
    "_name_or_path", "name_or_path", "description", "comment", "notes", "author", "path", "dataset"};
/// Folders of a system, which every machine has.
constexpr const char* kSystemFolders[] = {"/usr/", "/proc/", "/sys/",          "/dev/",   "/lib/",
                                          "/bin/", "/etc/",  "/opt/homebrew/", "/System/"};
constexpr const char* kFileKinds[] = {".safetensors", ".json", ".gguf", ".jinja", ".toml", ".txt"};
constexpr const char* kPublicHosts[] = {"huggingface.co", "github.com", "docs.nvidia.com", "hf.co"};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  if (what.empty()) return;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

/// Removes a word that begins with `prefix`: a token or a key, whatever follows.
void hide_after(std::string& text, const std::string& prefix) {
  constexpr const char* kHidden = "[hidden]";
  for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos;) {
    std::size_t end = at + prefix.size();
    while (end < text.size() && (is_word(text[end]) || text[end] == '.' || text[end] == '/' ||
                                 text[end] == '+' || text[end] == '='))
      ++end;
    text.replace(at, end - at, kHidden);
    at += std::string_view(kHidden).size();
  }
}

/// user:password@ and ?query of URLs.
void hide_url_parts(std::string& text) {
  for (std::size_t at = 0; (at = text.find("://", at)) != std::string::npos; at += 3) {
    const std::size_t begin = at + 3;
    std::size_t end = begin;
    while (end < text.size() && static_cast<unsigned char>(text[end]) > ' ' && text[end] != '"' &&
           text[end] != '\'')
      ++end;
    std::string url = text.substr(begin, end - begin);
    if (const std::size_t query = url.find('?'); query != std::string::npos) url.resize(query);
    const std::size_t slash = std::min(url.find('/'), url.size());
    if (const std::size_t user = url.rfind('@', slash); user != std::string::npos && user < slash)
      url.erase(0, user + 1);
    text.replace(begin, end - begin, url);
  }
}

void hide_mail(std::string& text) {
  for (std::size_t at = 0; (at = text.find('@', at)) != std::string::npos;) {
    std::size_t begin = at, end = at + 1;
    while (begin > 0 && (is_word(text[begin - 1]) || text[begin - 1] == '.' || text[begin - 1] == '+'))
      --begin;
    while (end < text.size() && (is_word(text[end]) || text[end] == '.')) ++end;
    const bool mail = begin < at && text.find('.', at) < end;
    if (mail) text.replace(begin, end - begin, "[mail]");
    at = mail ? begin : at + 1;
  }
}

/// The end of the path that begins at `at`: a punctuation mark or a blank, unless the path continues after
/// the blank.
std::size_t path_end(const std::string& text, std::size_t at) {
  const std::size_t most = std::min(text.find_first_of("\t\n\"'`,;:()[]{}<>|", at), text.size());
  const std::size_t last = text.rfind('/', most == 0 ? 0 : most - 1);
  const std::size_t from = last == std::string::npos || last < at ? at : last;
  return std::min(text.find(' ', from), most);
}

/// Paths of this machine may reveal people and projects: only the kind of the file is kept, unless every
/// machine has the path.
void hide_folders(std::string& text) {
  for (std::size_t at = 0; (at = text.find('/', at)) != std::string::npos;) {
    const bool inside = at > 0 && (is_word(text[at - 1]) ||
                                   std::string_view(".~/]:").find(text[at - 1]) != std::string_view::npos);
    const std::size_t end = path_end(text, at);
    const std::string path = text.substr(at, end - at);
    const bool known =
        std::ranges::any_of(kSystemFolders, [&](const char* folder) { return path.starts_with(folder); });
    if (inside || known || path.size() < 2) {
      at = inside ? at + 1 : std::max(end, at + 1);
      continue;
    }
    const std::size_t dot = path.rfind('.');
    const std::string kind = dot == std::string::npos ? "" : path.substr(dot);
    const bool told = std::ranges::any_of(kFileKinds, [&](const char* each) { return kind == each; });
    const std::string shown = "[path]" + (told ? kind : "");
    text.replace(at, end - at, shown);
    at += shown.size();
  }
}

/// A host of a private network, or any host that is not one of the hub's, is private to the user.
void hide_hosts(std::string& text) {
  for (std::size_t at = 0; (at = text.find("://", at)) != std::string::npos;) {
    const std::size_t begin = at + 3;
    std::size_t end = begin;
    while (end < text.size() && (is_word(text[end]) || text[end] == '.' || text[end] == ':' ||
                                 text[end] == '[' || text[end] == ']'))
      ++end;
    const std::string host = text.substr(begin, end - begin);
    const bool known = std::ranges::any_of(kPublicHosts, [&](const char* name) { return host == name; });
    if (!known) {
      std::size_t stop = end;  // with its path, which may name a folder
      while (stop < text.size() && static_cast<unsigned char>(text[stop]) > ' ' && text[stop] != '"' &&
             text[stop] != '\'' && text[stop] != ',' && text[stop] != ';')
        ++stop;
      text.replace(begin, stop - begin, "[host]");
      at = begin + std::string_view("[host]").size();
    } else {
      at = end;
    }
  }
}

/// The shape of a value, and words that name a kind of model; no free text.
Json shape_of(const Json& value) {
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    constexpr std::size_t kLongest = 64;
    const bool word =
        text.size() <= kLongest && std::ranges::all_of(text, [](char c) { return is_word(c) || c == '.'; });
    return word ? value : Json("[text]");
  }
  if (!value.is_structured()) return value;
  Json shape = value.is_object() ? Json::object() : Json::array();
  for (const auto& [key, inner] : value.items()) {
    if (value.is_array()) {
      shape.push_back(shape_of(inner));
    } else if (!kFreeKeys.contains(key)) {
      shape[shape_of(key).get<std::string>()] = shape_of(inner);
    }
  }
  return shape;
}

/// Every string and key of the document.
void scrub(Json& value, const Private& words) {
  if (value.is_string()) {
    value = scrubbed(value.get<std::string>(), words);
  } else if (value.is_structured()) {
    for (Json& inner : value) scrub(inner, words);
  }
}

Json shared_config(const std::string& text) {
  const Json config = read_json<Json>(text);
  Json shared = Json::object();
  if (!config.is_object()) return shared;
  for (const char* key : kConfigKeys) {
    if (config.contains(key)) shared[key] = shape_of(config[key]);
  }
  return shared;
}

Json model_json(const std::string& named) {
  if (is_synth_name(named)) return {{"name", named}};
  const Result<std::string> directory = find_model(named);
  if (!directory.ok()) return {{"error", directory.error().message}};
  const hub::ModelSummary summary = hub::summarise_folder(*directory);
  const Assessment found = assess(summary, named, false);
  return {{"model_type", summary.model_type},
          {"architecture", summary.architecture},
          {"quantisation", summary.quantisation},
          {"bytes", summary.bytes},
          {"head_file", summary.head_file},
          {"tier", tier_name(found.tier)},
          {"reason", found.reason},
          {"identity", summary.identity},
          {"config", shared_config(summary.config)}};
}

}  // namespace

Private private_words() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return text == nullptr ? std::string() : std::string(text);
  };
  Private words{value("HOME"), value("USER"), ""};
  if (words.user.empty()) words.user = value("LOGNAME");
  constexpr std::size_t kMaxHost = 256;
  std::string host(kMaxHost, '\0');
  if (::gethostname(host.data(), host.size() - 1) == 0) words.host = host.c_str();
  return words;
}

std::string scrubbed(std::string text, const Private& words) {
  hide_url_parts(text);
  for (const char* prefix : {"hf_", "sk-", "Bearer ", "bearer ", "api_org_"}) hide_after(text, prefix);
  hide_mail(text);
  constexpr std::size_t kShortest = 3;  // a shorter name is part of many words
  hide_hosts(text);
  if (words.home.size() >= kShortest) replace_all(text, words.home, "~");
  hide_folders(text);
  if (words.user.size() >= kShortest) replace_all(text, words.user, "[user]");
  if (words.host.size() >= kShortest) replace_all(text, words.host, "[host]");
  for (const char* homes : {"/home/", "/Users/"}) {  // of other people
    const std::string_view prefix(homes);
    for (std::size_t at = 0; (at = text.find(prefix, at)) != std::string::npos; at += prefix.size()) {
      std::size_t end = at + prefix.size();
      while (end < text.size() && text[end] != '/' && static_cast<unsigned char>(text[end]) > ' ') ++end;
      text.replace(at + prefix.size(), end - at - prefix.size(), "[user]");
    }
  }
  return text;
}

std::string bundle_text(const Machine& machine, const std::vector<Finding>& findings,
                        const std::string& backend, const std::string& model) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    const char* kind = finding.kind == Finding::Kind::kGood      ? "good"
                       : finding.kind == Finding::Kind::kWarning ? "warning"
                                                                 : "problem";
    list.push_back({{"kind", kind}, {"what", finding.what}, {"repair", finding.repair}});
  }
  Json variables = Json::array();
  for (const char* name : kVariables) {
    if (std::getenv(name) != nullptr) variables.push_back(name);
  }
  Json bundle = {{"foretoken", FORETOKEN_VERSION},
                 {"machine",
                  {{"system", machine.system},
                   {"processor", machine.processor},
                   {"features", machine.features},
                   {"cores", machine.logical_cores},
                   {"cpu_limit", machine.cpu_limit},
                   {"memory_total", machine.memory_total},
                   {"memory_available", machine.memory_available},
                   {"memory_limit", machine.memory_limit},
                   {"huge_pages", machine.huge_pages},
                   {"read_gb_per_s", machine.read_gb_per_s}}},
                 {"backend", backend},
                 {"findings", list},
                 {"model", model_json(model)},
                 {"variables_set", variables}};
  scrub(bundle, private_words());
  return write_json(bundle, 2) + "\n";
}

}  // namespace ft::cli
