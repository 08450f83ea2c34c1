// Prompts between the rounds: which gets a step, how many rows, and which short prompts share it.
#include <algorithm>
#include <vector>

#include "sched/scheduler.h"

namespace ft {

namespace {

/// Rows of the prompt that are still to be read. The last token belongs to the first round.
std::int64_t left_of(const Job& job) {
  return static_cast<std::int64_t>(job.slot->tokens.size()) - 1 - job.slot->timeline->length();
}

}  // namespace

/// The prompt that gets a chunk now; null if none waits for one.
Job* Scheduler::next_prompt() {
  Job* next = nullptr;
  for (const auto& job : running_) {
    if (job->slot->finish != Finish::kNone || job->paused || !job->prefilling()) continue;
    const bool due = job->passed_over >= kPatience;
    if (next == nullptr || (next->passed_over < kPatience && (due || left_of(*job) < left_of(*next)))) {
      if (next != nullptr) ++next->passed_over;
      next = job.get();
    } else {
      ++job->passed_over;
    }
  }
  if (next != nullptr) next->passed_over = 0;
  return next;
}

/// True if a request is past its prompt and continues.
bool Scheduler::decoding() const {
  return std::any_of(running_.begin(), running_.end(), [](const auto& job) {
    return job->slot->finish == Finish::kNone && !job->paused && !job->prefilling();
  });
}

/// The fraction of their time that rounds get before the next chunk: less if more prompts wait than answers
/// run, because a round of many answers takes little longer than one of a few.
double Scheduler::rounds_share() const {
  double answers = 0, prompts = 0;
  for (const auto& job : running_) {
    if (job->slot->finish != Finish::kNone || job->paused) continue;
    (job->prefilling() ? prompts : answers) += 1;
  }
  return answers < prompts ? answers / prompts : std::min(answers, 1.0);
}

/// While others decode: rows that take about as long as a round, or a gap too short to matter. Otherwise
/// kChunkMs.
int Scheduler::step_rows() const {
  const int most = decoder_.options().prefill_chunk;
  const bool others_decode = decoding();
  double rows = most;
  if (row_ms_ > 0) {
    const double fixed = decoder_.costs().verify(1);
    const double ms = others_decode ? std::max(round_ms_, kGapMs) : kChunkMs;
    rows = (ms - fixed) / row_ms_;
  } else if (others_decode) {
    rows = kMinChunk;
  }
  return static_cast<int>(std::clamp<double>(rows, std::min(kMinChunk, most), most));
}

/// Rows of the prompt's next chunk, at most `rows`: not beyond a position where a snapshot is taken.
int Scheduler::chunk_rows(const Job& job, int rows) const {
  const std::int64_t done = job.slot->timeline->length();
  std::int64_t chunk = std::min<std::int64_t>(rows, left_of(job));
  const std::int64_t every = snapshot_step(done);
  if (!cache_.enabled() || every <= 0) return static_cast<int>(chunk);
  chunk = std::min(chunk, (done / every + 1) * every - done);
  for (const std::int64_t parting : {job.shared_prefix, job.own_prefix}) {
    if (parting > done) chunk = std::min(chunk, parting - done);
  }
  return static_cast<int>(chunk);
}

/// The prompt, and those that wait and whose rest fits into the same step. To share is better on average than
/// to wait if a prompt's rows take less time than a step alone, which is rare on a processor.
std::vector<Job*> Scheduler::sharing_step(Job& first, int rows) const {
  std::vector<Job*> group = {&first};
  const auto shares = [&](const Job& job, std::int64_t room) {
    const std::int64_t left = left_of(job);
    return left <= room && static_cast<double>(left) * row_ms_ <= decoder_.costs().verify(1) &&
           chunk_rows(job, rows) == left && !job.slot->on_prompt_row && job.slot->images.empty();
  };
  if (row_ms_ <= 0 || !shares(first, rows)) return group;
  std::int64_t room = rows - left_of(first);
  for (const auto& job : running_) {
    if (job.get() == &first || job->slot->finish != Finish::kNone || job->paused || !job->prefilling())
      continue;
    if (!shares(*job, room)) continue;
    room -= left_of(*job);
    group.push_back(job.get());
  }
  return group;
}

/// Tokens between the first two snapshots of a prompt; 0: none are taken.
std::int64_t Scheduler::first_step() const {
  constexpr std::int64_t kMinStep = 512;
  const std::int64_t asked = options_.snapshot_tokens;
  return asked >= 0 ? asked : std::max<std::int64_t>(kMinStep, decoder_.options().prefill_chunk);
}

/// Tokens between two snapshots of a prompt at this place; 0: none are taken.
std::int64_t Scheduler::snapshot_step(std::int64_t done) const {
  return PrefixCache::step_at(done, first_step());
}

/// A late chunk counts for at most four times the earlier cost of its rows; a faster one counts at once.
void Scheduler::note_row_ms(double row_ms) {
  constexpr double kLate = 4, kSlower = 0.3, kFaster = 0.7;
  if (row_ms_ <= 0) {
    row_ms_ = row_ms;
    return;
  }
  const double change = std::min(row_ms, kLate * row_ms_) - row_ms_;
  row_ms_ += change * (change < 0 ? kFaster : kSlower);
}

void Scheduler::prefill(Job& job) {
  const double start = now_ms();
  const int most = step_rows();
  std::vector<Job*> group = sharing_step(job, most);
  std::vector<Slot*> slots;
  std::int64_t rows = 0;
  for (const Job* each : group) {
    slots.push_back(each->slot.get());
    rows += left_of(*each);
  }
  Status status;
  if (group.size() > 1) status = decoder_.prefill_together(slots);
  if (group.size() == 1 || !status.ok()) {  // one that does not fit into memory ends alone
    group.resize(1);
    rows = chunk_rows(job, most);
    status = decoder_.prefill(*job.slot, static_cast<int>(rows));
  }
  const double ms = now_ms() - start;
  prompt_debt_ms_ = kRoundsPerPrompt * rounds_share() * ms;
  status_.prefill_seconds += ms / 1e3;
  for (Job* each : group) {
    each->prompt_ms += ms;
    each->passed_over = 0;
    if (status.ok()) {
      keep_prompt(*each);
    } else {
      each->slot->finish = Finish::kError;
      each->slot->error = status.error();
    }
  }
  // Rows that are scored or belong to images cost more than others.
  const bool usual = !job.slot->on_prompt_row && job.slot->images.empty();
  if (status.ok() && rows >= kMinChunk && ms > 0 && usual)
    note_row_ms(std::max(ms - decoder_.costs().verify(1), 0.02 * ms) / static_cast<double>(rows));
}

/// A snapshot after a chunk, where one is taken.
void Scheduler::keep_prompt(Job& job) {
  using Place = PrefixCache::Place;
  const std::int64_t done = job.slot->timeline->length();
  const bool parts = done == job.shared_prefix || done == job.own_prefix;
  const Place place = parts ? Place::kParting : job.prefilling() ? Place::kWithin : Place::kPrompt;
  const std::int64_t every = snapshot_step(done);
  const bool due = every > 0 && done % every == 0;
  if (place != Place::kWithin || due) {
    const bool owns = done == job.own_prefix || !job.prefilling() || due;
    if (keep(job, place, owns)) job.kept_tokens = static_cast<int>(done) - job.cached_tokens;
  }
}

}  // namespace ft
