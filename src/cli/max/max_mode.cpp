#include "cli/max/max_mode.h"

#include <chrono>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system.h"

namespace ft::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLookInterval = std::chrono::milliseconds(100);

}  // namespace

Result<std::unique_ptr<MaxMode>> MaxMode::start(MaxModeOptions options) {
  FT_ASSIGN(ThermalForge fans, ThermalForge::find());
  FT_ASSIGN(const std::vector<Fan> found, fans.status());
  if (found.empty()) {
    return Error{Code::kUnsupported, "Max mode: this Mac has no fans"};
  }
  std::unique_ptr<MaxMode> mode(new MaxMode(std::move(fans), std::move(options)));
  FT_TRY(mode->begin());
  return mode;
}

// Marker, guard, fans: in this order, so that the fans are restored if the program dies in between.
Status MaxMode::begin() {
  FT_ASSIGN(const MaxMarker marker, MaxMarker::open());
  FT_TRY(marker.set({::getpid(), process_start(::getpid()), 0, 0, false}));
  FT_TRY(renew_guard());
  Status ramped = fans_.max();
  if (ramped.ok()) {
    const Result<std::vector<Fan>> fans = fans_.status();
    if (!fans.ok())
      ramped = fans.error();
    else if (!are_ramped(*fans))
      ramped = Error{Code::kIo,
                     "Max mode: the fans were asked for less than 85 % of their maximum; they are "
                     "automatic again"};
  }
  if (!ramped.ok()) return ramped;  // the destructor closes the pipe, and the guard restores the fans
  thread_ = std::thread([this] { watch(); });
  return {};
}

MaxMode::~MaxMode() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  end_guard();
}

void MaxMode::end_guard() {
  if (guard_.pipe >= 0) ::close(guard_.pipe);
  const auto end = Clock::now() + std::chrono::seconds(5);
  while (guard_.process > 0 && ::waitpid(guard_.process, nullptr, WNOHANG) == 0 && Clock::now() < end)
    std::this_thread::sleep_for(kLookInterval);
  guard_ = {};
}

Status MaxMode::renew_guard() {
  if (guard_.pipe >= 0) ::close(guard_.pipe);
  guard_ = {};
  FT_ASSIGN(guard_, start_fan_guard(::getpid(), options_.idle_s));
  return {};
}

void MaxMode::tell(char byte) {
  if (guard_.pipe >= 0 && ::write(guard_.pipe, &byte, 1) < 0) {
    // The guard is gone: the next check replaces it.
  }
}

/// A guard that ended on request has restored the fans, so they are set again, as at the start.
void MaxMode::replace_guard(bool idle) {
  Status again = renew_guard();
  if (again.ok()) again = fans_.max();
  options_.notice(again.ok() ? "Max mode: its guard ended and was restarted" : again.error().message);
  tell(idle ? 'i' : 'b');
}

void MaxMode::watch() {
  constexpr auto kConfirm = std::chrono::seconds(20);
  constexpr int kLooksOfSecond = 10;
  const auto begun = Clock::now();
  bool confirmed = false, said_idle = false;
  for (int look = 0; !stopping_; ++look) {
    std::this_thread::sleep_for(kLookInterval);
    if (guard_.process > 0 && ::waitpid(guard_.process, nullptr, WNOHANG) == guard_.process)
      replace_guard(said_idle);
    if (look % kLooksOfSecond != 0) continue;
    const bool idle = !options_.busy();
    if (idle != said_idle || look == 0) tell(idle ? 'i' : 'b');
    said_idle = idle;
    if (confirmed) continue;
    const Result<std::vector<Fan>> fans = fans_.status();
    confirmed = fans.ok() && turn_fast(*fans);
    if (confirmed || Clock::now() - begun < kConfirm) continue;
    end_guard();
    options_.notice(
        "Max mode: the fans did not reach 85 % of their maximum in 20 s; it is off and they are automatic "
        "again; see `foretoken max --status`");
    return;
  }
}

std::string recover_fans() {
  const Result<MaxMarker> marker = MaxMarker::open();
  if (!marker.ok()) return {};
  const MaxMarker::Users users = marker->users();
  if (!users.dropped || !users.alive.empty()) return {};
  const Result<ThermalForge> fans = ThermalForge::find();
  if (!fans.ok()) return "Max mode was left on and the fans cannot be restored: " + fans.error().message;
  constexpr double kPatienceS = 2;
  if (const Status back = fans->restore(kPatienceS); !back.ok())
    return "Max mode was left on and the fans cannot be restored: " + back.error().message;
  (void)marker->remove(0);
  return "Max mode was left on by a process that was killed; the fans are automatic again";
}

}  // namespace ft::cli
