// Questions to the hub: the commit of a revision, the files of a commit, the URL of a file's bytes. It
// follows redirects itself, so that the token goes only to the endpoint's own scheme, host and port.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "hub/answers.h"
#include "hub/events.h"
#include "hub/listing.h"
#include "hub/repository.h"
#include "hub/settings.h"
#include "hub/transport.h"

namespace ft::hub {

inline constexpr int kMaxRedirects = 5;
inline constexpr int kMaxTries = 5;  // without a new byte

/// Waits between the repetitions of one piece of work.
class RetryPolicy {
 public:
  explicit RetryPolicy(const Pace& pace) : pace_(pace) {}
  /// Call it after progress.
  void reset() { tries_ = 0; }
  /// The length of the next wait(); negative: all tries are used up.
  double next_wait_s(const Outcome& outcome) const;
  /// False if all tries are used up.
  bool wait(const Outcome& outcome);

 private:
  const Pace& pace_;
  int tries_ = 0;
};

/// The address of a file's bytes.
struct ResolvedUrl {
  std::string url;
  bool at_endpoint = false;  // the token may go there
};

class HubClient {
 public:
  /// All of them must outlive the client.
  HubClient(const HubSettings& settings, Transport& transport, const Pace& pace, PullEvents& events);

  /// The commit of repository.revision; no request if that is a commit.
  Result<std::string> commit(const Repository& repository);
  /// parse_gate() of the repository's revision.
  Result<std::string> gate(const Repository& repository);
  Result<std::vector<RemoteFile>> files(const Repository& repository, const std::string& commit);
  /// Thread-safe, with a connection of the calling thread.
  Result<ResolvedUrl> resolve_url(Connection& connection, const Repository& repository,
                                  const std::string& commit, const std::string& path);

  /// The token to send to `url`: the stored one at the endpoint, unless the hub refused it.
  std::string token_for(const std::string& url);
  /// Remembers that the token was refused.
  void drop_token(const Error& why);
  /// Calls one of the events, never two at once.
  void tell(const std::function<void(PullEvents&)>& call);
  const Pace& pace() const { return pace_; }

 private:
  struct Fetched {
    ResponseHeader response;
    std::string body, url;      // url: of the last answer
    bool is_elsewhere = false;  // a redirect to another origin, not followed
  };
  Result<Fetched> ask(Connection& connection, const std::string& url, const Asked& asked, bool head_only);
  Result<Fetched> ask_once(Connection& connection, std::string url, Asked& asked, bool head_only,
                           Outcome& outcome);
  Result<Fetched> ask_revision(const Repository& repository);
  bool is_news(const std::string& topic);
  Result<std::string> with_known_refs(Error error, const Repository& repository);

  const HubSettings& settings_;
  const Pace& pace_;
  PullEvents& events_;
  std::unique_ptr<Connection> connection_;
  std::mutex mutex_;  // token_refused_, warned_
  bool token_refused_ = false;
  std::set<std::string> warned_;
  std::mutex telling_;
};

}  // namespace ft::hub
