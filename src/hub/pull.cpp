#include "hub/pull.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <set>
#include <utility>

#include "base/text_layout.h"
#include "hub/whole_blob.h"

namespace ft::hub {
namespace {

std::string shown_bytes(std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

/// The local files, without a request.
Result<PullPlan> offline_plan(const HubCache& cache, const Repository& repository) {
  const std::optional<std::string> commit = cache.commit_here(repository);
  if (!commit) {
    return Error{Code::kNotFound,
                 fmt::format("{} is not in {}, and HF_HUB_OFFLINE is set, so it cannot be downloaded; unset "
                             "HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE",
                             repository.text(), cache.folder())};
  }
  PullPlan plan;
  plan.repository = repository.id(), plan.commit = *commit;
  plan.snapshot = cache.snapshot(repository, *commit);
  return plan;
}

class Pull {
 public:
  Pull(const HubSettings& settings, Transport& transport, const Pace& pace, PullEvents& events,
       const PullOptions& options)
      : transport_(transport),
        options_(options),
        repository_(options.repository),
        client_(settings, transport, pace, events),
        cache_(settings.cache, settings.symlinks) {}

  Result<PullPlan> run() {
    FT_ASSIGN(plan_.commit, client_.commit(repository_));
    plan_.repository = repository_.id(), plan_.snapshot = cache_.snapshot(repository_, plan_.commit);
    FT_ASSIGN(files_, client_.files(repository_, plan_.commit));
    if (options_.dry_run) look_at_gate();
    FT_ASSIGN(choice_, choose_files(files_, repository_, options_.include, options_.exclude));
    add_named_weights(files_, plan_.snapshot, options_.exclude, choice_);  // from an earlier run
    if (options_.repair) FT_TRY(repair());
    measure();
    client_.tell([&](PullEvents& events) { events.planned(plan_); });
    if (options_.dry_run) return plan_;
    if (plan_.damaged.empty() && is_here()) return keep();
    FT_TRY(check_room());
    FT_TRY(cache_.prepare(repository_, plan_.commit));
    FT_TRY(cache_.note_pull(repository_, plan_.commit));
    FT_TRY(cache_.write_tree(repository_, plan_.commit, files_));
    FT_TRY(transfer(choice_.texts));
    if (options_.examine) FT_TRY(options_.examine(plan_.snapshot));
    FT_TRY(transfer(choice_.others));
    add_named_weights(files_, plan_.snapshot, options_.exclude, choice_);
    const std::int64_t missing = plan_.missing_bytes;
    measure();
    FT_TRY(check_room());
    plan_.missing_bytes = missing;
    FT_TRY(transfer(choice_.weights));
    FT_TRY(cache_.settle_tree(repository_, plan_.commit, files_));
    FT_TRY(cache_.write_ref(repository_, plan_.commit));
    cache_.forget_pulls(repository_);
    return plan_;
  }

 private:
  /// Every file is here. A cache that may only be read is enough, unless a ref must be written.
  Result<PullPlan> keep() {
    if (options_.examine) FT_TRY(options_.examine(plan_.snapshot));
    (void)cache_.settle_tree(repository_, plan_.commit, files_);
    FT_TRY(cache_.write_ref(repository_, plan_.commit));
    cache_.forget_pulls(repository_);
    return plan_;
  }

  /// Whether the files have a licence to accept, and whether this account has access.
  void look_at_gate() {
    const Result<std::string> gate = client_.gate(repository_);
    if (!gate.ok() || gate->empty() || files_.empty()) return;
    plan_.gate = *gate;
    const std::unique_ptr<Connection> connection = transport_.connect();
    const Result<ResolvedUrl> resolved =
        client_.resolve_url(*connection, repository_, plan_.commit, files_.front().path);
    if (!resolved.ok()) plan_.refusal = resolved.error().message;
  }

  bool is_here() const {
    const auto here = [&](const RemoteFile& file) {
      return cache_.has_file(repository_, plan_.commit, file);
    };
    return std::ranges::all_of(groups(),
                               [&](const auto* group) { return std::ranges::all_of(*group, here); });
  }

  std::array<const std::vector<RemoteFile>*, 3> groups() const {
    return {&choice_.texts, &choice_.others, &choice_.weights};
  }

  /// A file. A snapshot's link leads to its blob; a blob may be a link into the store of repositories.
  bool holds_bytes(const std::string& path) const {
    std::error_code absent;
    const bool in_snapshot = path.starts_with(plan_.snapshot + "/");
    return std::filesystem::is_regular_file(in_snapshot ? std::filesystem::symlink_status(path, absent)
                                                        : std::filesystem::status(path, absent));
  }

  /// Blobs whose hash differs from their name are deleted, and so is a snapshot's copy.
  Status repair() {
    std::vector<std::pair<std::string, const RemoteFile*>> there;
    std::int64_t bytes = 0;
    std::set<std::string> paths;
    for (const std::vector<RemoteFile>* group : groups()) {
      for (const RemoteFile& file : *group) {
        for (const std::string& path :
             {cache_.blob(repository_, file.etag()), plan_.snapshot + "/" + file.path}) {
          if (holds_bytes(path) && size_of(path) == file.size && paths.insert(path).second) {
            there.emplace_back(path, &file);
            bytes += file.size;
          }
        }
      }
    }
    client_.tell([&](PullEvents& events) {
      events.noted(fmt::format("comparing {} files with their hashes, {}", there.size(), shown_bytes(bytes)));
    });
    for (const auto& [path, file] : there) {
      const bool whole =
          is_whole_blob(path, file->etag(), [&](std::int64_t) { return !client_.pace().cancelled(); });
      if (client_.pace().cancelled()) return Error{Code::kCancelled, "stopped"};
      if (!whole) FT_TRY(discard(path, *file));
    }
    if (plan_.damaged.empty()) client_.tell([](PullEvents& events) { events.noted("no file is damaged"); });
    return {};
  }

  Status discard(const std::string& path, const RemoteFile& file) {
    if (std::ranges::count(plan_.damaged, file.path) == 0) plan_.damaged.push_back(file.path);
    client_.tell([&](PullEvents& events) {
      events.noted(
          fmt::format("{} is damaged{}", file.path, options_.dry_run ? "" : "; it is fetched again"));
    });
    std::error_code failed;
    if (!options_.dry_run) std::filesystem::remove(path, failed);
    if (!failed) return {};
    return Error{Code::kIo, fmt::format("{}: cannot be deleted: {}", path, failed.message())};
  }

  void measure() {
    plan_.files = plan_.bytes = plan_.missing_bytes = room_ = 0;
    std::set<std::string> counted;
    for (const std::vector<RemoteFile>* files : groups()) {
      for (const RemoteFile& file : *files) {
        ++plan_.files, plan_.bytes += file.size;
        if (!counted.insert(file.etag()).second) continue;
        const std::string blob = cache_.blob(repository_, file.etag());
        const std::int64_t there = size_of(blob);
        if (there == file.size || cache_.has_file(repository_, plan_.commit, file)) continue;
        plan_.missing_bytes += file.size - PartialFile::bytes_there(blob, file.etag(), file.size);
        if (size_of(PartialFile::name_for(blob)) < file.size) room_ += file.size;  // else it is reserved
      }
    }
  }

  static std::int64_t size_of(const std::string& path) {
    std::error_code absent;
    const std::uintmax_t size = std::filesystem::file_size(path, absent);
    return absent ? -1 : static_cast<std::int64_t>(size);
  }

  /// Checks the volume of the cache before the first byte.
  Status check_room() const {
    const std::int64_t free = cache_.free_bytes();
    const std::int64_t spare = spare_bytes(room_);
    if (room_ == 0 || free < 0 || free >= room_ + spare) return {};
    return Error{Code::kExhausted,
                 fmt::format("{} needs {} and {} of reserve, but {} has {} free; free some space, or set "
                             "HF_HUB_CACHE to another disk",
                             repository_.id(), shown_bytes(room_), shown_bytes(spare), cache_.folder(),
                             shown_bytes(free))};
  }

  Status transfer(const std::vector<RemoteFile>& files) {
    if (files.empty()) return {};
    Transfer transfer(client_, transport_, cache_, repository_, plan_.commit, options_.transfer);
    return transfer.run(files);
  }

  Transport& transport_;
  const PullOptions& options_;
  const Repository& repository_;
  HubClient client_;
  HubCache cache_;
  std::vector<RemoteFile> files_;
  FileChoice choice_;
  PullPlan plan_;
  std::int64_t room_ = 0;  // bytes that the disk must still take
};

}  // namespace

std::int64_t spare_bytes(std::int64_t bytes) {
  constexpr std::int64_t kMin = std::int64_t{32} << 20, kMax = std::int64_t{1} << 30;
  return std::min(kMax, bytes / 10 + kMin);
}

Result<PullPlan> pull(const HubSettings& settings, Transport& transport, const Pace& pace, PullEvents& events,
                      const PullOptions& options) {
  if (settings.offline && options.repair) {
    return Error{Code::kUnsupported,
                 "a repair needs the hashes from the hub, and HF_HUB_OFFLINE is set; unset HF_HUB_OFFLINE "
                 "and TRANSFORMERS_OFFLINE"};
  }
  if (settings.offline) return offline_plan(HubCache(settings.cache, settings.symlinks), options.repository);
  return Pull(settings, transport, pace, events, options).run();
}

}  // namespace ft::hub
