#include "hub/client.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ft::hub {
namespace {

/// The URL of a Location header: absolute, or relative to `base`.
std::string located(const std::string& base, std::string_view location) {
  if (!origin_of(std::string(location)).empty()) return std::string(location);
  const std::string origin = base.substr(0, base.find('/', base.find("://") + 3));
  if (location.starts_with('/')) return origin + std::string(location);
  return base.substr(0, base.rfind('/') + 1) + std::string(location);
}

}  // namespace

double RetryPolicy::next_wait_s(const Outcome& outcome) const {
  if (tries_ + 1 >= kMaxTries) return -1;
  if (outcome.wait_s >= 0) return outcome.wait_s;
  return std::ldexp(static_cast<double>(pace_.backoff_ms) / 1000, tries_);
}

bool RetryPolicy::wait(const Outcome& outcome) {
  const double wait_s = next_wait_s(outcome);
  if (wait_s < 0) return false;
  ++tries_;
  pace_.sleep_ms(static_cast<std::int64_t>(wait_s * 1000));
  return !pace_.cancelled();
}

HubClient::HubClient(const HubSettings& settings, Transport& transport, const Pace& pace, PullEvents& events)
    : settings_(settings), pace_(pace), events_(events), connection_(transport.connect()) {}

std::string HubClient::token_for(const std::string& url) {
  const std::lock_guard lock(mutex_);
  return !token_refused_ && origin_of(url) == origin_of(settings_.endpoint) ? settings_.token : std::string();
}

void HubClient::drop_token(const Error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(token_refused_, true)) return;
  }
  tell([&](PullEvents& events) { events.noted(why.message); });
}

bool HubClient::is_news(const std::string& topic) {
  const std::lock_guard lock(mutex_);
  return warned_.insert(topic).second;
}

void HubClient::tell(const std::function<void(PullEvents&)>& call) {
  const std::lock_guard lock(telling_);
  call(events_);
}

Result<HubClient::Fetched> HubClient::ask_once(Connection& connection, std::string url, Asked& asked,
                                               bool head_only, Outcome& outcome) {
  Fetched fetched;
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    fetched.body.clear(), fetched.url = url;
    HttpRequest request{url, token_for(url), head_only};
    asked.sent_token = !request.token.empty();
    bool too_long = false;
    Result<ResponseHeader> response =
        connection.send(request, [&](const ResponseHeader&, std::string_view bytes) {
          too_long = fetched.body.size() + bytes.size() > kMaxListingBytes;
          if (!too_long) fetched.body += bytes;
          return !too_long;
        });
    if (too_long) {
      return Error{Code::kExhausted, fmt::format("{}: the hub's answer is larger than 64 MiB; this is not a "
                                                 "model",
                                                 asked.id)};
    }
    if (!response.ok()) return response.error();
    fetched.response = std::move(*response);
    outcome = classify(fetched.response, fetched.body, asked);
    if (outcome.verdict != Verdict::kRedirect) return fetched;
    url = located(url, fetched.response.header("location"));
    if (!is_allowed_url(url)) {
      return Error{Code::kIo, fmt::format("{}: the hub redirects to '{}', which is not https; nothing was "
                                          "fetched",
                                          asked.id, origin_of(url))};
    }
    if (head_only && origin_of(url) != origin_of(settings_.endpoint)) {
      fetched.url = url, fetched.is_elsewhere = true;
      outcome = {};
      return fetched;
    }
  }
  return Error{Code::kIo,
               fmt::format("{}: more than {} redirects; check HF_ENDPOINT", asked.id, kMaxRedirects)};
}

Result<HubClient::Fetched> HubClient::ask(Connection& connection, const std::string& url,
                                          const Asked& question, bool head_only) {
  RetryPolicy retries(pace_);
  Asked asked = question;
  for (;;) {
    Outcome outcome;
    Result<Fetched> fetched = ask_once(connection, url, asked, head_only, outcome);
    if (!fetched.ok()) {
      if (fetched.error().code != Code::kBusy) return fetched.error();
      outcome = {Verdict::kRepeat, -1, fetched.error()};
    } else if (outcome.verdict == Verdict::kGood) {
      if (const std::string warning(fetched->response.header("x-hf-warning")); !warning.empty()) {
        const std::string topic = warning.substr(0, warning.find(';'));
        if (is_news(topic)) tell([&](PullEvents& events) { events.noted("the hub says: " + warning); });
      }
      return fetched;
    }
    if (outcome.verdict == Verdict::kWithoutToken) {
      drop_token(outcome.error);
      continue;
    }
    if (outcome.verdict != Verdict::kRepeat) return outcome.error;
    if (const double wait_s = retries.next_wait_s(outcome); wait_s >= 0) {
      tell([&](PullEvents& events) { events.repeated(question.path, outcome.error.message, wait_s); });
    }
    if (!retries.wait(outcome)) {
      if (pace_.cancelled()) return Error{Code::kCancelled, "stopped"};
      if (!fetched.ok()) {
        outcome.error.message +=
            "; check the network, then run the same command again (https_proxy sets a proxy, HF_ENDPOINT "
            "another hub)";
      }
      return outcome.error;
    }
  }
}

Result<std::string> HubClient::with_known_refs(Error error, const Repository& repository) {
  const Asked asked{settings_.endpoint, repository.id(), repository.revision, ""};
  const Result<Fetched> fetched = ask(
      *connection_, fmt::format("{}/api/models/{}/refs", settings_.endpoint, repository.id()), asked, false);
  std::vector<std::string> names = fetched.ok() ? parse_refs(fetched->body) : std::vector<std::string>();
  constexpr std::size_t kShown = 12;
  if (names.size() > kShown) names.resize(kShown), names.emplace_back("...");
  if (!names.empty()) error.message += fmt::format("; it has {}", fmt::join(names, ", "));
  return error;
}

Result<HubClient::Fetched> HubClient::ask_revision(const Repository& repository) {
  const Asked asked{settings_.endpoint, repository.id(), repository.revision, ""};
  return ask(*connection_,
             fmt::format("{}/api/models/{}/revision/{}", settings_.endpoint, repository.id(),
                         percent_encoded(repository.revision, false)),
             asked, false);
}

Result<std::string> HubClient::gate(const Repository& repository) {
  FT_ASSIGN(const Fetched fetched, ask_revision(repository));
  return parse_gate(fetched.body);
}

Result<std::string> HubClient::commit(const Repository& repository) {
  if (is_commit(repository.revision)) return repository.revision;
  const Result<Fetched> fetched = ask_revision(repository);
  if (fetched.ok()) return parse_commit(fetched->body);
  Error error = fetched.error();
  if (error.message.find("has no branch, tag or commit") == std::string::npos) return error;
  return with_known_refs(std::move(error), repository);
}

Result<std::vector<RemoteFile>> HubClient::files(const Repository& repository, const std::string& commit) {
  const Asked asked{settings_.endpoint, repository.id(), commit, ""};
  std::vector<RemoteFile> files;
  std::string url = fmt::format("{}/api/models/{}/tree/{}?recursive=true&expand=false", settings_.endpoint,
                                repository.id(), commit);
  std::set<std::string> pages;
  while (!url.empty()) {
    if (!pages.insert(url).second || pages.size() > kMaxPages) {
      return Error{Code::kCorrupt, "the hub's list of files has no end; check HF_ENDPOINT"};
    }
    FT_ASSIGN(const Fetched fetched, ask(*connection_, url, asked, false));
    FT_ASSIGN(std::vector<RemoteFile> page, parse_tree(fetched.body));
    if (files.size() + page.size() > kMaxFiles) {
      return Error{Code::kExhausted,
                   fmt::format("{} has more than {} files; it is not a model", repository.id(), kMaxFiles)};
    }
    std::ranges::move(page, std::back_inserter(files));
    url = next_page(fetched.response.header("link"), settings_.endpoint);
  }
  return files;
}

Result<ResolvedUrl> HubClient::resolve_url(Connection& connection, const Repository& repository,
                                           const std::string& commit, const std::string& path) {
  const Asked asked{settings_.endpoint, repository.id(), commit, path};
  FT_ASSIGN(const Fetched fetched, ask(connection,
                                       fmt::format("{}/{}/resolve/{}/{}", settings_.endpoint, repository.id(),
                                                   commit, percent_encoded(path, true)),
                                       asked, true));
  return ResolvedUrl{fetched.url, !fetched.is_elsewhere};
}

}  // namespace ft::hub
