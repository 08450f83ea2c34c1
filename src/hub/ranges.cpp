#include "hub/ranges.h"

#include <algorithm>
#include <fmt/format.h>

namespace ft::hub {
namespace {

constexpr int kMaxRangeResolutions = 2;  // without a new byte
constexpr int kWhole = 200, kPartialContent = 206;

}  // namespace

/// One answer: its bytes are in the piece; the outcome is the next action if some are missing.
Result<Outcome> RangeReader::ask(Piece& piece, const ResolvedUrl& resolved) {
  const std::int64_t from = piece.first + static_cast<std::int64_t>(piece.got);
  const std::int64_t last = piece.first + std::ssize(piece.out) - 1;
  HttpRequest request{resolved.url, resolved.at_endpoint ? client_.token_for(resolved.url) : ""};
  request.first = from, request.last = last;
  const bool all = from == 0 && last + 1 == piece.file.size;  // then 200 has the same bytes
  std::string refusal;
  ResponseHeader refused;
  bool wrong_range = false;
  const Result<ResponseHeader> response =
      connection_->send(request, [&](const ResponseHeader& answer, std::string_view bytes) {
        if (answer.status != kWhole && answer.status != kPartialContent) {
          refused = answer;
          refusal += bytes.substr(0, kShownBodyBytes - std::min(kShownBodyBytes, refusal.size()));
          return refusal.size() < kShownBodyBytes;
        }
        wrong_range =
            answer.status == kWhole ? !all : !is_range(answer, request.first, request.last, piece.file.size);
        if (wrong_range) return false;
        const std::size_t taken = std::min(bytes.size(), piece.out.size() - piece.got);
        std::ranges::copy(bytes.substr(0, taken), piece.out.begin() + static_cast<std::ptrdiff_t>(piece.got));
        piece.got += taken, fetched_ += static_cast<std::int64_t>(taken);
        return taken == bytes.size();
      });
  if (piece.got == piece.out.size()) return Outcome();
  if (client_.pace().cancelled()) return Error{Code::kCancelled, "stopped"};
  const Asked asked{"the hub",       repository_.id(),       commit_,
                    piece.file.path, !request.token.empty(), !resolved.at_endpoint};
  if (wrong_range) {
    return Error{
        Code::kIo,
        fmt::format("{}: the server sends no byte ranges; pull the repository instead: foretoken pull {}",
                    piece.file.path, repository_.id())};
  }
  if (!response.ok() && refusal.empty()) {
    if (response.error().code != Code::kBusy) return response.error();
    return Outcome{Verdict::kRepeat, -1, response.error()};
  }
  Outcome outcome = classify(response.ok() ? *response : refused, refusal, asked);
  if (outcome.verdict == Verdict::kGood) {
    outcome = {Verdict::kRepeat,
               -1,
               {Code::kBusy, fmt::format("{}: the server sent fewer bytes than it should", piece.file.path)}};
  }
  return outcome;
}

Status RangeReader::settle(const Piece& piece, const Outcome& outcome, RetryPolicy& retries,
                           int& resolutions) {
  switch (outcome.verdict) {
    case Verdict::kWithoutToken:
      client_.drop_token(outcome.error);
      return ++resolutions > kMaxRangeResolutions ? Status(outcome.error) : Status();
    case Verdict::kRedirect:
    case Verdict::kPlaceAgain:
      resolved_.erase(piece.file.path);
      return ++resolutions > kMaxRangeResolutions ? Status(outcome.error) : Status();
    case Verdict::kRepeat: {
      resolved_.erase(piece.file.path);
      const double wait_s = retries.next_wait_s(outcome);
      if (wait_s >= 0) {
        client_.tell(
            [&](PullEvents& events) { events.repeated(piece.file.path, outcome.error.message, wait_s); });
      }
      if (retries.wait(outcome)) return {};
      return client_.pace().cancelled() ? Error{Code::kCancelled, "stopped"} : outcome.error;
    }
    default:
      return outcome.error;
  }
}

Status RangeReader::read(const RemoteFile& file, std::int64_t first, std::span<char> out) {
  Piece piece{file, first, out};
  RetryPolicy retries(client_.pace());
  int resolutions = 0;
  while (piece.got < out.size()) {
    const std::size_t before = piece.got;
    auto resolved = resolved_.find(file.path);
    if (resolved == resolved_.end()) {
      FT_ASSIGN(ResolvedUrl found, client_.resolve_url(*connection_, repository_, commit_, file.path));
      resolved = resolved_.emplace(file.path, std::move(found)).first;
    }
    FT_ASSIGN(const Outcome outcome, ask(piece, resolved->second));
    if (piece.got == out.size()) return {};
    if (piece.got > before) retries.reset(), resolutions = 0;
    FT_TRY(settle(piece, outcome, retries, resolutions));
  }
  return {};
}

}  // namespace ft::hub
