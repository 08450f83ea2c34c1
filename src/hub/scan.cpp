#include "hub/scan.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <utility>

#include "base/ascii.h"
#include "base/text_file.h"
#include "base/text_layout.h"
#include "format/gguf/files.h"
#include "format/json_text.h"
#include "hub/cache.h"
#include "hub/listing.h"
#include "hub/partial.h"
#include "hub/repository.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;

std::string variable_of(const Variables& variables, const char* name) {
  const char* value = variables(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string text_of_file(const fs::path& path, std::size_t limit) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed)) return {};
  std::ifstream file(path, std::ios::binary);
  std::string text(limit, '\0');
  file.read(text.data(), static_cast<std::streamsize>(limit));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return std::string(without_byte_order_mark(text));
}

constexpr std::string_view kDrafterFolders[] = {"eagle3", "dflash", "assistant"};

/// "a/b", or the folder's own name if it is the root.
std::string name_below(const fs::path& root, const fs::path& folder) {
  const std::string name = folder.lexically_relative(root).generic_string();
  if (name != ".") return name;
  return (folder.has_filename() ? folder : folder.parent_path())
      .filename()
      .string();  // "models/" ends in a slash
}

class Scanner {
 public:
  explicit Scanner(const std::function<bool()>& out_of_time) : out_of_time_(out_of_time) {}

  Scan take() { return std::move(scan_); }

  void hub_cache(const std::string& cache) {
    for (const fs::path& repository : entries(cache)) {
      const std::string folder = repository.filename().string();
      constexpr std::string_view kPrefix = "models--";
      if (!folder.starts_with(kPrefix)) continue;
      std::string name = folder.substr(kPrefix.size());
      if (const std::size_t dashes = name.find("--"); dashes != std::string::npos)
        name.replace(dashes, 2, "/");
      const Refs refs = refs_of(repository / "refs");
      const bool partial = has_partial(repository / "blobs");
      std::vector<FoundModel> found;
      for (const fs::path& snapshot : entries((repository / "snapshots").string())) {
        FoundModel model{name, kHubPlace, snapshot.string(), "", repository.string(), partial};
        name_snapshot(refs, model);
        add_folder(std::move(model), found);
      }
      // The main revision first, then others.
      std::ranges::stable_sort(found, [](const FoundModel& a, const FoundModel& b) {
        return (a.revision == kMainRevision) > (b.revision == kMainRevision);
      });
      std::ranges::move(found, std::back_inserter(scan_.models));
    }
  }

  /// Two levels: <publisher>/<model>.
  void lm_studio(const std::string& root) {
    for (const fs::path& publisher : folders(root)) {
      for (const fs::path& model : folders(publisher.string())) {
        const std::string name = publisher.filename().string() + "/" + model.filename().string();
        add_folder({name, "LM Studio", model.string(), "", model.string()}, scan_.models);
      }
    }
  }

  void mtplx(const std::string& root) {
    for (const fs::path& model : folders(root)) {
      std::string name = model.filename().string();
      if (const std::size_t dashes = name.find("--"); dashes != std::string::npos)
        name.replace(dashes, 2, "/");
      add_folder({name, "MTPLX", model.string(), "", model.string()}, scan_.models);
    }
  }

  /// manifests/<host>/<namespace>/<name>/<tag> name blobs by their hash.
  void ollama(const std::string& root) {
    for (const fs::path& host : folders(root + "/manifests")) {
      for (const fs::path& space : folders(host.string())) {
        for (const fs::path& name : folders(space.string())) {
          for (const fs::path& tag : entries(name.string())) add_manifest(root, space, name, tag);
        }
      }
    }
  }

  void folder(const std::string& root) {
    std::error_code failed;
    struct stat facts{};
    if (::stat(root.c_str(), &facts) != 0) return;
    descend(root, root, facts.st_dev, 0);
  }

 private:
  bool ends() {
    if (!scan_.ended_early.empty()) return true;
    if (seen_ > kMaxScanEntries) {
      scan_.ended_early =
          fmt::format("the search ended after {} entries; name fewer folders", kMaxScanEntries);
    } else if (out_of_time_()) {
      scan_.ended_early = "the search ran out of time: a disk is slow, or a folder has many other files";
    }
    return !scan_.ended_early.empty();
  }

  std::vector<fs::path> entries(const std::string& folder) {
    std::vector<fs::path> found;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed)) {
      ++seen_;
      if (ends()) break;
      found.push_back(entry->path());
    }
    std::ranges::sort(found);
    return found;
  }

  std::vector<fs::path> folders(const std::string& folder) {
    std::vector<fs::path> found = entries(folder);
    std::erase_if(found, [](const fs::path& path) {
      std::error_code failed;
      return path.filename().string().starts_with('.') || !fs::is_directory(path, failed);
    });
    return found;
  }

  using Refs = std::map<std::string, std::vector<std::string>>;

  /// refs/<branch>, also nested: commit -> names, main first.
  Refs refs_of(const fs::path& folder) {
    Refs refs;
    std::error_code failed;
    constexpr std::size_t kDigits = 40;
    for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed)) {
      if (entry.depth() > kMaxScanDepth) entry.disable_recursion_pending();
      if (++seen_, ends()) break;
      const std::string commit = text_of_file(entry->path(), kDigits);
      if (is_commit(commit))
        refs[commit].push_back(entry->path().lexically_relative(folder).generic_string());
    }
    for (auto& [commit, names] : refs) {
      std::ranges::sort(names, {},
                        [](const std::string& name) { return std::pair(name != kMainRevision, name); });
    }
    return refs;
  }

  /// By its first ref; without a ref, by the revision of an unfinished pull; otherwise by its commit.
  void name_snapshot(const Refs& refs, FoundModel& model) {
    const fs::path snapshot(model.directory), repository(model.root);
    const std::string commit = snapshot.filename().string(), id = model.name;
    constexpr std::size_t kMaxNote = 400;
    std::string asked = text_of_file(repository / kPullNotes / commit, kMaxNote), quantisation;
    if (!looks_like_repository("org/name@" + asked)) asked.clear();
    if (const std::size_t colon = asked.find(':'); colon != std::string::npos)
      quantisation = asked.substr(colon), asked.resize(colon);
    if (!asked.empty()) {
      model.partial = true;
      model.kept_bytes = kept_bytes(repository, snapshot, commit);
    }
    std::vector<std::string> names;
    if (const auto at = refs.find(commit); at != refs.end()) names = at->second;
    const bool is_taken = std::ranges::any_of(
        refs, [&](const auto& each) { return std::ranges::count(each.second, asked) > 0; });
    if (names.empty() && !asked.empty() && !is_taken) names.push_back(asked);
    if (names.empty() || names.front() != commit) names.push_back(commit);
    model.revision = names.front();
    const auto named = [&](const std::string& revision) {
      return (revision == kMainRevision ? id : id + "@" + revision) + quantisation;
    };
    model.name = named(names.front());
    for (std::size_t i = 1; i < names.size(); ++i) model.also.push_back(named(names[i]));
  }

  /// The bytes of the commit's files that are in the snapshot or in partial files.
  std::int64_t kept_bytes(const fs::path& repository, const fs::path& snapshot, const std::string& commit) {
    const Result<std::vector<RemoteFile>> files =
        read_tree_file((repository / "trees" / (commit + ".json")).string());
    if (!files.ok()) return 0;
    std::int64_t bytes = 0;
    for (const RemoteFile& file : *files) {
      if (++seen_, ends()) break;
      std::error_code absent;
      const std::uintmax_t size = fs::file_size(snapshot / file.path, absent);
      const std::string blob = (repository / "blobs" / file.etag()).string();
      bytes +=
          absent ? PartialFile::bytes_there(blob, file.etag(), file.size) : static_cast<std::int64_t>(size);
    }
    return bytes;
  }

  bool has_partial(const fs::path& blobs) {
    const std::vector<fs::path> found = entries(blobs.string());
    return std::ranges::any_of(found, [](const fs::path& path) { return path.extension() == ".incomplete"; });
  }

  /// Each folder once, on whichever path it was reached.
  bool is_new(const std::string& path) {
    struct stat facts{};
    return ::stat(path.c_str(), &facts) == 0 && known_.insert({facts.st_dev, facts.st_ino}).second;
  }

  void add_folder(FoundModel model, std::vector<FoundModel>& models) {
    std::error_code failed;
    const fs::path folder(model.directory);
    const std::vector<std::string> files = gguf_models(model.directory);
    const bool config = fs::exists(fs::symlink_status(folder / "config.json", failed));
    if ((config && files.empty()) || model.kept_bytes >= 0) {
      if (is_new(model.directory)) models.push_back(std::move(model));
      return;
    }
    const std::size_t before = models.size();
    for (const std::string& file : files) {
      if (++seen_, ends()) break;
      if (!is_new(file)) continue;
      FoundModel one = model;
      const std::string quantisation = ":" + format::gguf_model_name(file);
      one.directory = file, one.name += quantisation;
      for (std::string& other : one.also) other += quantisation;
      if (one.root == model.directory) one.root = one.directory;  // its neighbours are other models
      models.push_back(std::move(one));
    }
    if (models.size() == before && model.partial && is_new(model.directory))
      models.push_back(std::move(model));
  }

  void add_manifest(const std::string& root, const fs::path& space, const fs::path& name,
                    const fs::path& tag) {
    const Result<format::JsonDocument> document = format::parse_json(
        text_of_file(tag, std::size_t{1} << 20), "manifest", format::DuplicateKeys::kLastWins);
    if (!document.ok() || !(*document)->is_object()) return;
    const auto layers = (*document)->find("layers");
    if (layers == (*document)->end() || !layers->is_array()) return;
    for (const auto& layer : *layers) {
      if (!layer.is_object()) continue;
      if (layer.value("mediaType", nlohmann::json()) != "application/vnd.ollama.image.model") continue;
      const nlohmann::json digest = layer.value("digest", nlohmann::json());
      std::string blob = digest.is_string() ? digest.get<std::string>() : "";
      if (const std::size_t colon = blob.find(':'); colon != std::string::npos) blob[colon] = '-';
      if (!check_file_path(blob).ok()) continue;
      const std::string prefix =
          space.filename() == "library" ? "" : fmt::format("{}/", space.filename().string());
      scan_.models.push_back(
          {fmt::format("ollama:{}{}:{}", prefix, name.filename().string(), tag.filename().string()), "Ollama",
           fmt::format("{}/blobs/{}", root, blob), "", ""});
    }
  }

  void descend(const fs::path& root, const fs::path& folder, dev_t device, int depth) {
    struct stat facts{};
    if (ends() || ::stat(folder.c_str(), &facts) != 0 || facts.st_dev != device) return;
    std::error_code failed;
    if (fs::exists(folder / "config.json", failed)) {
      add_folder({name_below(root, folder), "folder", folder.string(), "", folder.string()}, scan_.models);
      return;
    }
    const bool files = !gguf_models(folder.string()).empty();
    if (files)
      add_folder({name_below(root, folder), "folder", folder.string(), "", folder.string()}, scan_.models);
    if (depth >= kMaxScanDepth) return;
    for (const fs::path& inner : folders(folder.string())) {
      // Next to a GGUF file, these folders hold its drafters.
      const bool drafter = files && std::ranges::count(kDrafterFolders, inner.filename().string()) > 0;
      if (!drafter) descend(root, inner, device, depth + 1);
    }
  }

  const std::function<bool()>& out_of_time_;
  Scan scan_;
  int seen_ = 0;
  std::set<std::pair<dev_t, ino_t>> known_;
};

}  // namespace

ScanPlaces usual_places(const HubSettings& settings, const Variables& variables,
                        const std::vector<std::string>& extra) {
  ScanPlaces places;
  places.hub_cache = settings.cache;
  const std::string home = variable_of(variables, "HOME");
  places.ollama = variable_of(variables, "OLLAMA_MODELS");
  if (!home.empty()) {
    if (places.ollama.empty()) places.ollama = home + "/.ollama/models";
    places.lm_studio = {home + "/.lmstudio/models", home + "/.cache/lm-studio/models"};
    places.mtplx = {home + "/.mtplx/models"};
  }
  std::string data = variable_of(variables, "XDG_DATA_HOME");
  if (!data.starts_with('/')) data = home.empty() ? "" : home + "/.local/share";
  if (!data.empty()) places.folders.push_back(data + "/foretoken/models");
  std::string named = variable_of(variables, "FORETOKEN_MODELS");
  while (!named.empty()) {
    const std::size_t colon = std::min(named.find(':'), named.size());
    if (colon > 0) places.folders.push_back(named.substr(0, colon));
    named.erase(0, std::min(colon + 1, named.size()));
  }
  places.folders.insert(places.folders.end(), extra.begin(), extra.end());
  return places;
}

Scan scan_models(const ScanPlaces& places, const std::function<bool()>& out_of_time) {
  Scanner scanner(out_of_time);
  scanner.hub_cache(places.hub_cache);
  for (const std::string& root : places.lm_studio) scanner.lm_studio(root);
  for (const std::string& root : places.mtplx) scanner.mtplx(root);
  for (const std::string& root : places.folders) scanner.folder(root);
  scanner.ollama(places.ollama);
  return scanner.take();
}

namespace {

/// "org/name:q4_k_m" for "org/name:name-q4_k_m", as llama.cpp writes it.
bool names_quantisation(const std::string& known, const std::string& wanted) {
  const std::size_t colon = wanted.rfind(':'), own = known.rfind(':');
  if (colon == std::string::npos || own == std::string::npos || colon + 1 == wanted.size()) return false;
  const std::string_view quantisation = std::string_view(wanted).substr(colon + 1);
  const std::string_view before = std::string_view(known).substr(0, own);
  const std::string_view place = std::string_view(wanted).substr(0, colon);
  const bool same = before == place || before.ends_with("/" + std::string(place));
  return same && std::string_view(known).substr(own + 1).ends_with(quantisation);
}

}  // namespace

std::vector<FoundModel> matching(const std::vector<FoundModel>& models, const std::string& name) {
  std::vector<FoundModel> exact, close, files;  // files: of a repository of GGUF files with that name
  const std::string wanted = lower(name);
  for (const FoundModel& model : models) {
    std::vector<std::string> names = model.also;
    names.push_back(model.name);
    const auto is_like = [&](const std::string& each) {
      const std::string known = lower(each);
      return known == wanted || known.ends_with("/" + wanted) || names_quantisation(known, wanted);
    };
    if (std::ranges::count(names, name) > 0) exact.push_back(model);
    if (std::ranges::any_of(names, is_like)) close.push_back(model);
    const std::string known = lower(model.name);
    const std::string repository = known.substr(0, std::min(known.rfind(':'), known.size()));
    if (repository != known && (repository == wanted || repository.ends_with("/" + wanted)))
      files.push_back(model);
  }
  if (!exact.empty()) return exact;
  return close.empty() ? files : close;
}

ModelSummary summarise(const FoundModel& model) {
  ModelSummary summary = summarise_place(model.directory);
  if (summary.complete()) return summary;
  if (model.kept_bytes >= 0) {
    summary.bytes = model.kept_bytes;
    summary.problem = fmt::format("its download is unfinished ({} present)",
                                  bytes_text(static_cast<double>(model.kept_bytes)));
  } else if (model.partial) {
    summary.problem += " (its download is unfinished)";
  }
  return summary;
}

}  // namespace ft::hub
