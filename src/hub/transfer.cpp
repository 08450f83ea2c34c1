#include "hub/transfer.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <new>
#include <thread>

namespace ft::hub {
namespace {

constexpr std::int64_t kMaxWholeBytes = 50'000'000'000;  // beyond it servers send ranges only
constexpr int kMaxResolutions = 2;                       // without a new byte
constexpr auto kTick = std::chrono::milliseconds(125);
constexpr auto kLookAgain = std::chrono::milliseconds(50);

}  // namespace

struct Transfer::Work {
  enum class Phase { kUntouched, kElsewhere, kOpen, kClosing, kDone };

  explicit Work(const RemoteFile& what) : file(what), digest(Digest::for_blob(what.etag(), what.size)) {}

  RemoteFile file;
  Phase phase = Phase::kUntouched;
  std::unique_ptr<FileLock> lock;
  std::unique_ptr<PartialFile> partial;
  std::vector<bool> taken;
  int in_flight = 0;
  bool whole = false;  // in one piece, without ranges
  bool restart_whole = false;
  int damages = 0, removals = 0;

  std::mutex placing;
  std::optional<ResolvedUrl> resolved;

  std::mutex hashing;
  Digest digest;
  std::size_t hashed = 0;  // pieces

  std::atomic<std::int64_t> saved_ms{0};
};

Transfer::Transfer(HubClient& client, Transport& transport, const HubCache& cache,
                   const Repository& repository, std::string commit, TransferOptions options)
    : client_(client),
      transport_(transport),
      cache_(cache),
      repository_(repository),
      commit_(std::move(commit)),
      options_(options),
      pace_(client.pace()),
      allowed_(std::clamp(options.first_connections, 1, options.connections)) {}

Transfer::~Transfer() = default;

// ---- which piece is next ----------------------------------------------------------------------------------

bool Transfer::all_done() const {
  return std::ranges::all_of(works_, [](const auto& work) { return work->phase == Work::Phase::kDone; });
}

/// Takes the lock of the file and opens its partial, unless the blob exists or another process has the lock.
Status Transfer::begin(Work& work) {
  FT_ASSIGN(work.lock, FileLock::try_lock(cache_.lock_path(repository_, work.file.etag())));
  const std::string blob = cache_.blob(repository_, work.file.etag());
  std::error_code absent;
  const std::uintmax_t size = std::filesystem::file_size(blob, absent);
  if (!absent && size == static_cast<std::uintmax_t>(work.file.size)) {
    work.lock.reset();
    FT_TRY(cache_.link(repository_, commit_, work.file));
    work.phase = Work::Phase::kDone;
    return {};
  }
  if (work.lock == nullptr) {
    work.phase = Work::Phase::kElsewhere;
    return {};
  }
  FT_ASSIGN(work.partial, PartialFile::open(blob, work.file.etag(), work.file.size, options_.piece_bytes));
  work.taken.assign(work.partial->pieces(), false);
  work.saved_ms = pace_.now_ms();
  work.phase = Work::Phase::kOpen;
  return {};
}

std::optional<Transfer::Task> Transfer::task_of(Work& work) {
  if (work.phase != Work::Phase::kOpen || work.restart_whole) return std::nullopt;
  bool missing = false;
  for (std::size_t piece = 0; piece < work.partial->pieces(); ++piece) {
    if (work.partial->done(piece) == work.partial->length(piece)) continue;
    missing = true;
    if (work.taken[piece]) continue;
    work.taken[piece] = true, ++work.in_flight;
    return Task{&work, piece, false};
  }
  if (missing || work.in_flight > 0) return std::nullopt;
  work.phase = Work::Phase::kClosing;
  return Task{&work, 0, true};
}

std::optional<Transfer::Task> Transfer::next(int worker) {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (all_done()) return std::nullopt;
    bool elsewhere = false, here = false;
    for (const auto& work : works_) {
      if (worker >= allowed_) break;
      if (work->phase == Work::Phase::kUntouched || work->phase == Work::Phase::kElsewhere) {
        if (const Status begun = begin(*work); !begun.ok()) {
          lock.unlock();
          stop(begun);
          return std::nullopt;
        }
      }
      if (const std::optional<Task> task = task_of(*work)) return task;
      elsewhere = elsewhere || work->phase == Work::Phase::kElsewhere;
      here = here || work->phase == Work::Phase::kOpen || work->phase == Work::Phase::kClosing;
    }
    if (elsewhere && !here && !std::exchange(told_of_others_, true)) {
      client_.tell(
          [](PullEvents& events) { events.noted("another program is fetching this file; waiting"); });
    }
    changed_.wait_for(lock, kLookAgain);
  }
  return std::nullopt;
}

void Transfer::requeue(const Task& task, const Status& status, bool no_range) {
  if (!status.ok()) stop(status);
  const std::lock_guard lock(mutex_);
  Work& work = *task.work;
  if (!task.closing) work.taken[task.piece] = false, --work.in_flight;
  work.restart_whole = work.restart_whole || no_range;
  if (work.restart_whole && work.in_flight == 0 && !stopping_) {
    const Status restarted = work.partial->restart(true);
    work.whole = true, work.restart_whole = false, work.hashed = 0;
    work.digest = Digest::for_blob(work.file.etag(), work.file.size);
    work.taken.assign(work.partial->pieces(), false);
    if (!restarted.ok() && error_.ok()) error_ = restarted, stopping_ = true;
  }
  changed_.notify_all();
}

// ---- fetching one piece -----------------------------------------------------------------------------------

Result<ResolvedUrl> Transfer::resolved_url(Connection& connection, Work& work) {
  const std::lock_guard lock(work.placing);
  if (!work.resolved) {
    FT_ASSIGN(work.resolved, client_.resolve_url(connection, repository_, commit_, work.file.path));
  }
  return *work.resolved;
}

void Transfer::save_sometimes(Work& work) {
  const std::int64_t now = pace_.now_ms();
  std::int64_t before = work.saved_ms;
  if (now - before < options_.save_every_ms || !work.saved_ms.compare_exchange_strong(before, now)) return;
  (void)work.partial->save();  // a failure costs only bytes that are fetched again
}

Result<Transfer::Received> Transfer::receive(Connection& connection, const Task& task,
                                             const ResolvedUrl& resolved, Outcome& outcome) {
  Work& work = *task.work;
  PartialFile& partial = *work.partial;
  const std::int64_t length = partial.length(task.piece), begin = partial.begin(task.piece);
  const std::int64_t from = partial.done(task.piece);
  HttpRequest request{resolved.url, resolved.at_endpoint ? client_.token_for(resolved.url) : ""};
  if (const bool ranged = !work.whole && (from > 0 || length < partial.size()); ranged)
    request.first = begin + from, request.last = begin + length - 1;
  bool wrong_range = false, complete = false;
  Status written;
  std::string refusal;
  ResponseHeader refused;
  const Result<ResponseHeader> response =
      connection.send(request, [&](const ResponseHeader& answer, std::string_view bytes) {
        constexpr int kOk = 200, kPartialContent = 206;
        if (answer.status != kOk && answer.status != kPartialContent) {
          refused = answer;
          refusal += bytes.substr(0, kShownBodyBytes - std::min(kShownBodyBytes, refusal.size()));
          return refusal.size() < kShownBodyBytes;
        }
        wrong_range = request.first >= 0 && (answer.status != kPartialContent ||
                                             !is_range(answer, request.first, request.last, partial.size()));
        if (wrong_range || stopping_) return false;
        const std::int64_t room = length - partial.done(task.piece);
        written = partial.write(task.piece, bytes.substr(0, static_cast<std::size_t>(room)));
        fetched_ += static_cast<std::int64_t>(bytes.size());
        complete = partial.done(task.piece) == length;
        save_sometimes(work);
        return written.ok() && (!complete || static_cast<std::int64_t>(bytes.size()) == room);
      });
  FT_TRY(written);
  if (partial.done(task.piece) == length) return Received::kAll;
  if (wrong_range) return Received::kNoRange;
  if (stopping_ || pace_.cancelled()) return Error{Code::kCancelled, "stopped"};
  if (!response.ok() && refusal.empty()) {
    if (response.error().code != Code::kBusy && response.error().code != Code::kCancelled)
      return response.error();
    outcome = {Verdict::kRepeat, -1, response.error()};
    return Received::kPart;
  }
  const Asked asked{"the hub",      repository_.id(),       commit_,
                    work.file.path, !request.token.empty(), !resolved.at_endpoint};
  outcome = classify(response.ok() ? *response : refused, refusal, asked);
  if (outcome.verdict == Verdict::kGood) {
    outcome = {Verdict::kRepeat,
               -1,
               {Code::kBusy, fmt::format("{}: the server sent fewer bytes than it should", work.file.path)}};
  }
  return outcome.verdict == Verdict::kNoRange ? Received::kNoRange : Received::kPart;
}

/// Decides what to do after an answer without the piece.
Status Transfer::settle(const Task& task, const Outcome& outcome, RetryPolicy& retries) {
  Work& work = *task.work;
  const auto forget_place = [&] {
    const std::lock_guard lock(work.placing);
    work.resolved.reset();
  };
  switch (outcome.verdict) {
    case Verdict::kWithoutToken:
      client_.drop_token(outcome.error);
      return {};
    case Verdict::kRedirect:  // the file moved
    case Verdict::kPlaceAgain:
      forget_place();
      return {};
    case Verdict::kRepeat: {
      too_many_ = true;
      forget_place();
      const double wait_s = retries.next_wait_s(outcome);
      if (wait_s >= 0) {
        client_.tell(
            [&](PullEvents& events) { events.repeated(work.file.path, outcome.error.message, wait_s); });
      }
      if (retries.wait(outcome)) return {};
      if (pace_.cancelled()) return Error{Code::kCancelled, "stopped"};
      return outcome.error;
    }
    default:
      return outcome.error;
  }
}

Status Transfer::fetch(Connection& connection, const Task& task, bool& no_range) {
  Work& work = *task.work;
  RetryPolicy retries(pace_);
  int resolutions = 0;
  while (!stopping_) {
    if (work.whole) FT_TRY(work.partial->restart(true));
    const std::int64_t before = work.partial->done(task.piece);
    FT_ASSIGN(const ResolvedUrl resolved, resolved_url(connection, work));
    Outcome outcome;
    FT_ASSIGN(const Received received, receive(connection, task, resolved, outcome));
    if (received == Received::kAll) return {};
    if (received == Received::kNoRange) {
      if (work.whole || work.file.size > kMaxWholeBytes) {
        return Error{Code::kIo, fmt::format("{}: the server sends no byte ranges; fetch it with `hf download "
                                            "{}`, which fills the same cache",
                                            work.file.path, repository_.id())};
      }
      no_range = true;
      return {};
    }
    if (!work.whole && work.partial->done(task.piece) > before) retries.reset(), resolutions = 0;
    const bool again = outcome.verdict == Verdict::kPlaceAgain || outcome.verdict == Verdict::kRedirect ||
                       outcome.verdict == Verdict::kWithoutToken;
    if (again && ++resolutions > kMaxResolutions) return outcome.error;
    FT_TRY(settle(task, outcome, retries));
  }
  return {};
}

void Transfer::work(int worker) {
  try {
    const std::unique_ptr<Connection> connection = transport_.connect();
    while (const std::optional<Task> task = next(worker)) {
      bool no_range = false;
      Status status = task->closing ? Status() : fetch(*connection, *task, no_range);
      if (status.ok() && !stopping_ && !no_range) {
        status = task->closing ? close(*task->work) : follow(*task->work);
      }
      requeue(*task, status, no_range);
    }
  } catch (const std::bad_alloc&) {
    stop(
        Error{Code::kExhausted, "out of memory while fetching; repeat the command with fewer --connections"});
  }
}

// ---- ending a file ----------------------------------------------------------------------------------------

/// Hashes the pieces that are complete from the beginning on. One thread at a time; the others fetch.
Status Transfer::follow(Work& work) {
  const std::unique_lock lock(work.hashing, std::try_to_lock);
  if (!lock.owns_lock()) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(kMebibyte));
  while (work.hashed < work.partial->pieces()) {
    const std::int64_t begin = work.partial->begin(work.hashed), length = work.partial->length(work.hashed);
    if (work.partial->done(work.hashed) != length) return {};
    for (std::int64_t at = 0; at < length && !stopping_; at += kMebibyte) {
      const std::span<std::byte> part(bytes.data(),
                                      static_cast<std::size_t>(std::min(kMebibyte, length - at)));
      FT_TRY(work.partial->read(begin + at, part));
      work.digest.add(part);
    }
    ++work.hashed;
  }
  return {};
}

Status Transfer::damaged(Work& work, const std::string& found) {
  if (++work.damages > 1) {
    work.partial->remove();
    return Error{Code::kCorrupt, fmt::format("{} arrived damaged twice: its hash is {}, the hub's is {}; it "
                                             "was discarded. Try again, or set another HF_ENDPOINT",
                                             work.file.path, found, work.file.etag())};
  }
  client_.tell([&](PullEvents& events) {
    events.noted(fmt::format("{} arrived damaged; fetching it again", work.file.path));
  });
  FT_TRY(work.partial->restart(false));
  work.digest = Digest::for_blob(work.file.etag(), work.file.size), work.hashed = 0;
  const std::lock_guard lock(mutex_);
  work.taken.assign(work.partial->pieces(), false);
  work.phase = Work::Phase::kOpen;
  return {};
}

/// All pieces are complete, and only this thread has the file.
Status Transfer::close(Work& work) {
  FT_TRY(follow(work));
  if (stopping_) return {};
  if (const std::string found = work.digest.finish(); found != work.file.etag()) return damaged(work, found);
  const Status published = work.partial->publish();
  if (!published.ok() && published.error().code == Code::kBusy && work.removals++ == 0) {
    const std::lock_guard lock(mutex_);  // from nothing, once
    work.lock.reset(), work.partial.reset();
    work.digest = Digest::for_blob(work.file.etag(), work.file.size), work.hashed = 0;
    work.phase = Work::Phase::kUntouched;
    return {};
  }
  FT_TRY(published);
  FT_TRY(cache_.link(repository_, commit_, work.file));
  client_.tell(
      [&](PullEvents& events) { events.published(work.file.path, work.file.size, work.file.etag()); });
  const std::lock_guard lock(mutex_);
  work.lock.reset(), work.partial.reset();
  work.phase = Work::Phase::kDone;
  return {};
}

// ---- the calling thread -----------------------------------------------------------------------------------

void Transfer::stop(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (error_.ok()) error_ = status;
  stopping_ = true;
  changed_.notify_all();
}

/// One more connection while the rate grows by a tenth; half of them after a stall or a refusal.
void Transfer::adapt(std::int64_t now_ms) {
  constexpr std::int64_t kEveryMs = 3000, kWindowMs = 5000;
  const std::int64_t fetched = fetched_;
  samples_.push_back({now_ms, fetched});
  while (samples_.size() > 2 && now_ms - samples_.front().at_ms > kWindowMs) samples_.pop_front();
  if (now_ms - adapted_ms_ < kEveryMs) return;
  adapted_ms_ = now_ms;
  const Sample& first = samples_.front();
  const double rate = now_ms > first.at_ms ? static_cast<double>(fetched - first.bytes) /
                                                 static_cast<double>(now_ms - first.at_ms)
                                           : 0;
  constexpr double kGrowth = 1.1;
  if (too_many_.exchange(false)) {
    allowed_ = std::max(1, allowed_ / 2);
  } else if (rate > last_rate_ * kGrowth && allowed_ < options_.connections) {
    ++allowed_;
  }
  last_rate_ = rate;
}

void Transfer::tell_progress() {
  PullProgress progress;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& work : works_) {
      progress.total += work->file.size;
      if (work->phase == Work::Phase::kDone) progress.bytes += work->file.size;
      if (work->partial != nullptr) progress.bytes += work->partial->done();
      progress.connections += work->in_flight;
    }
  }
  const std::int64_t now = pace_.now_ms();
  adapt(now);
  const Sample& first = samples_.front();
  if (now > first.at_ms) {
    progress.bytes_per_s =
        static_cast<double>(fetched_ - first.bytes) * 1000 / static_cast<double>(now - first.at_ms);
  }
  client_.tell([&](PullEvents& events) { events.progressed(progress); });
}

Status Transfer::run(const std::vector<RemoteFile>& files) {
  works_.clear();
  for (const RemoteFile& file : files) works_.push_back(std::make_unique<Work>(file));
  std::vector<std::thread> workers;
  std::atomic<int> running{options_.connections};
  for (int i = 0; i < options_.connections; ++i) {
    workers.emplace_back([this, i, &running] {
      work(i);
      --running;
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    });
  }
  while (running > 0) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kTick, [&] { return running == 0; });
    }
    tell_progress();
    if (pace_.cancelled()) stop(Error{Code::kCancelled, "stopped"});
  }
  for (std::thread& worker : workers) worker.join();
  if (error_.ok()) return {};
  for (const auto& work : works_) {
    if (work->partial != nullptr) (void)work->partial->save();
  }
  return error_;
}

}  // namespace ft::hub
