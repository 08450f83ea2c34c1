#include "hub/pull.h"

#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace ft::hub {
namespace {

double gigabytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

/// What is here, without a request.
Result<PullPlan> offline_plan(const HubCache& cache, const Repository& repository) {
  const std::optional<std::string> commit = cache.commit_here(repository);
  if (!commit) {
    return Error{Code::kNotFound,
                 fmt::format("{} is not in {}, and HF_HUB_OFFLINE forbids to fetch it; unset "
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
    FT_ASSIGN(choice_, choose_files(files_, repository_, options_.include, options_.exclude));
    add_named_weights(files_, plan_.snapshot, options_.exclude, choice_);  // from an earlier run
    measure();
    client_.tell([&](PullEvents& events) { events.planned(plan_); });
    if (options_.dry_run) return plan_;
    FT_TRY(check_room());
    FT_TRY(cache_.prepare(repository_, plan_.commit));
    FT_TRY(cache_.write_tree(repository_, plan_.commit, files_));
    FT_TRY(transfer(choice_.texts));
    if (options_.examine) FT_TRY(options_.examine(plan_.snapshot));
    add_named_weights(files_, plan_.snapshot, options_.exclude, choice_);
    const std::int64_t missing = plan_.missing_bytes;
    measure();
    FT_TRY(check_room());
    plan_.missing_bytes = missing;
    FT_TRY(transfer(choice_.weights));
    FT_TRY(cache_.write_ref(repository_, plan_.commit));
    return plan_;
  }

 private:
  void measure() {
    plan_.files = plan_.bytes = plan_.missing_bytes = room_ = 0;
    std::set<std::string> counted;
    for (const std::vector<RemoteFile>* files : {&choice_.texts, &choice_.weights}) {
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

  /// On the volume of the cache, before the first byte.
  Status check_room() const {
    const std::int64_t free = cache_.free_bytes();
    if (room_ == 0 || free < 0 || free >= room_ + kSpareBytes) return {};
    return Error{
        Code::kExhausted,
        fmt::format("{} needs {:.1f} GB and 1 GB to spare, and {} has {:.1f} GB free; free some space, "
                    "or set HF_HUB_CACHE to another disk",
                    repository_.id(), gigabytes(room_), cache_.folder(), gigabytes(free))};
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

Result<PullPlan> pull(const HubSettings& settings, Transport& transport, const Pace& pace, PullEvents& events,
                      const PullOptions& options) {
  if (settings.offline) return offline_plan(HubCache(settings.cache, settings.symlinks), options.repository);
  return Pull(settings, transport, pace, events, options).run();
}

}  // namespace ft::hub
