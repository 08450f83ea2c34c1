#include "hub/listing.h"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "format/json_text.h"
#include "hub/repository.h"

namespace ft::hub {
namespace {

using nlohmann::json;
constexpr std::size_t kObjectDigits = 40, kSha256Digits = 64;

Error strange(const char* what) {
  return {Code::kCorrupt,
          fmt::format("the hub sent an unexpected answer: {}; check HF_ENDPOINT, or try again later", what)};
}

std::string text_at(const json& object, const char* key) {
  const auto at = object.find(key);
  const auto* text = at == object.end() ? nullptr : at->get_ptr<const std::string*>();
  return text == nullptr ? std::string() : *text;
}

std::int64_t size_at(const json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_number_unsigned()) return -1;
  const auto size = at->get<std::uint64_t>();
  return size > static_cast<std::uint64_t>(kMaxFileBytes) ? -1 : static_cast<std::int64_t>(size);
}

Result<RemoteFile> parse_file(const json& entry) {
  RemoteFile file;
  file.path = text_at(entry, "path");
  FT_TRY(check_file_path(file.path));
  file.size = size_at(entry, "size");
  file.oid = text_at(entry, "oid");
  file.xet_hash = text_at(entry, "xetHash");
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = text_at(*lfs, "oid");
    file.size = size_at(*lfs, "size");
    if (!is_hex(file.sha256, kSha256Digits)) return strange("a large file has no SHA-256");
  }
  if (file.size < 0) return strange("a file has no size");
  if (!is_hex(file.oid, kObjectDigits)) return strange("a file has no hash");
  if (!is_hex(file.xet_hash, kSha256Digits)) file.xet_hash.clear();
  return file;
}

void add_names(const json& refs, const char* kind, std::vector<std::string>& names) {
  const auto list = refs.find(kind);
  if (list == refs.end() || !list->is_array()) return;
  for (const json& ref : *list) {
    if (const std::string name = ref.is_object() ? text_at(ref, "name") : ""; !name.empty())
      names.push_back(name);
  }
}

}  // namespace

Result<std::string> parse_commit(std::string_view text) {
  const Result<format::JsonDocument> document =
      format::parse_json(text, "revision", format::DuplicateKeys::kLastWins);
  if (!document.ok() || !(*document)->is_object()) return strange("the description of the revision");
  std::string commit = text_at(**document, "sha");
  if (!is_commit(commit)) return strange("the revision has no commit");
  return commit;
}

std::string parse_gate(std::string_view text) {
  const Result<format::JsonDocument> document =
      format::parse_json(text, "revision", format::DuplicateKeys::kLastWins);
  if (!document.ok() || !(*document)->is_object()) return {};
  const std::string gate = text_at(**document, "gated");
  if (!gate.empty()) return gate == "manual" ? gate : "auto";
  const auto flag = (*document)->find("gated");
  return flag != (*document)->end() && flag->is_boolean() && flag->get<bool>() ? "auto" : "";
}

Result<std::vector<RemoteFile>> parse_tree(std::string_view text) {
  const Result<format::JsonDocument> document =
      format::parse_json(text, "tree", format::DuplicateKeys::kLastWins);
  if (!document.ok() || !(*document)->is_array()) return strange("the list of files");
  std::vector<RemoteFile> files;
  for (const json& entry : **document) {
    if (!entry.is_object()) return strange("an entry of the list of files");
    if (text_at(entry, "type") != "file") continue;
    if (files.size() >= kMaxFiles) {
      return Error{Code::kExhausted,
                   fmt::format("the repository has more than {} files; it is not a model", kMaxFiles)};
    }
    FT_ASSIGN(RemoteFile file, parse_file(entry));
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<std::string> parse_refs(std::string_view text) {
  std::vector<std::string> names;
  const Result<format::JsonDocument> document =
      format::parse_json(text, "refs", format::DuplicateKeys::kLastWins);
  if (!document.ok() || !(*document)->is_object()) return names;
  for (const char* kind : {"branches", "tags"}) add_names(**document, kind, names);
  return names;
}

std::string next_page(std::string_view link, const std::string& endpoint) {
  while (!link.empty()) {
    const std::size_t open = link.find('<'), close = link.find('>', open);
    if (open == std::string_view::npos || close == std::string_view::npos) return {};
    const std::string url(link.substr(open + 1, close - open - 1));
    const std::size_t end = std::min(link.find(",", close), link.size());
    const std::string_view parameters = link.substr(close + 1, end - close - 1);
    link.remove_prefix(std::min(end + 1, link.size()));
    if (parameters.find("rel=\"next\"") == std::string_view::npos) continue;
    // The path begins at /api, because an endpoint may have a path.
    const std::size_t scheme = url.find("://");
    const std::size_t path = url.find("/api/", scheme == std::string::npos ? 0 : scheme + 3);
    return path == std::string::npos ? std::string() : endpoint + url.substr(path);
  }
  return {};
}

std::string tree_json(const std::vector<RemoteFile>& files) {
  nlohmann::ordered_json entries = nlohmann::ordered_json::object();
  std::vector<const RemoteFile*> sorted;
  for (const RemoteFile& file : files) sorted.push_back(&file);
  std::ranges::sort(sorted, {}, [](const RemoteFile* file) -> const std::string& { return file->path; });
  for (const RemoteFile* file : sorted) {
    nlohmann::ordered_json entry = {{"size", file->size}, {"blob_id", file->oid}};
    if (!file->sha256.empty()) entry["lfs_sha256"] = file->sha256, entry["lfs_size"] = file->size;
    if (!file->xet_hash.empty()) entry["xet_hash"] = file->xet_hash;
    entries[file->path] = std::move(entry);
  }
  return write_json(nlohmann::ordered_json{{"format_version", 1}, {"files", std::move(entries)}}, 1);
}

Result<std::vector<RemoteFile>> read_tree_file(const std::string& path) {
  FT_ASSIGN(const format::JsonDocument document, format::read_json_object(path));
  const auto entries = document->find("files");
  if (entries == document->end() || !entries->is_object()) {
    return Error{Code::kCorrupt, fmt::format("{}: lists no files", path)};
  }
  std::vector<RemoteFile> files;
  for (const auto& [name, entry] : entries->items()) {
    if (!entry.is_object() || !check_file_path(name).ok()) continue;
    RemoteFile file{name, size_at(entry, "size"), text_at(entry, "blob_id"), text_at(entry, "lfs_sha256"),
                    ""};
    if (!file.sha256.empty()) file.size = size_at(entry, "lfs_size");
    const bool named = is_hex(file.etag(), file.sha256.empty() ? kObjectDigits : kSha256Digits);
    if (file.size >= 0 && named) files.push_back(std::move(file));
  }
  return files;
}

}  // namespace ft::hub
