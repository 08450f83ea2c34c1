#include "hub/answers.h"

#include <charconv>
#include <fmt/format.h>

#include "base/utf8.h"

namespace ft::hub {
namespace {

constexpr int kBadRequest = 400, kUnauthorized = 401, kForbidden = 403, kNotFound = 404, kTimeout = 408,
              kRangeNotSatisfiable = 416, kTooManyRequests = 429, kTakenDown = 451, kServerErrors = 500;

std::optional<double> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data() || value < 0) return std::nullopt;
  return value;
}

/// The value of `;name=` in a structured header.
std::optional<double> parameter(std::string_view header, std::string_view name) {
  const std::string key = fmt::format(";{}=", name);
  const std::size_t at = header.find(key);
  return at == std::string_view::npos ? std::nullopt : number(header.substr(at + key.size()));
}

/// The server's name for this request, which its operators need.
std::string request_name(const ResponseHeader& response) {
  for (const char* name : {"x-request-id", "x-amzn-trace-id", "x-amz-cf-id"}) {
    if (const std::string_view id = response.header(name); !id.empty())
      return fmt::format(" (request {})", utf8_replace_invalid(id));
  }
  return {};
}

/// The body as one line of text without control characters.
std::string shown(std::string_view body) {
  std::string text = utf8_replace_invalid(body.substr(0, kShownBodyBytes));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = ' ';
  }
  return text;
}

std::string_view header_message(const ResponseHeader& response) { return response.header("x-error-message"); }

/// The hub's message in brackets, if there is one.
std::string in_its_words(const ResponseHeader& response, std::string_view body) {
  const std::string_view message = header_message(response);
  const std::string text =
      shown(message.empty() && !body.starts_with("<") && !body.starts_with("{") ? body : message);
  return text.empty() ? "" : fmt::format(" (the hub says: {})", text);
}

Error gated(const ResponseHeader& response, std::string_view body, const Asked& asked) {
  const std::string page = fmt::format("{}/{}", asked.endpoint, asked.id);
  if (!asked.sent_token) {
    return {Code::kNotFound,
            fmt::format("{} needs the acceptance of its licence: accept it at {}, then give a token of that "
                        "account in HF_TOKEN or with `hf auth login`",
                        asked.id, page)};
  }
  return {
      Code::kNotFound,
      fmt::format("the account of your token has no access to {}: accept its licence at {}, or wait until "
                  "its owner has agreed; a fine-grained token must also allow gated repositories{}",
                  asked.id, page, in_its_words(response, body))};
}

/// 403 without a code: the account or its token may not.
Error forbidden(const ResponseHeader& response, std::string_view body, const Asked& asked) {
  if (!asked.sent_token) {
    return {Code::kNotFound, fmt::format("{} needs access: give the token of an account that has it in "
                                         "HF_TOKEN or with `hf auth login`{}{}",
                                         asked.id, in_its_words(response, body), request_name(response))};
  }
  return {
      Code::kNotFound,
      fmt::format("your token may not read {}: its account has no access, or the token lacks the permission "
                  "to read this repository; compare {}/{} and the token's settings{}{}",
                  asked.id, asked.endpoint, asked.id, in_its_words(response, body), request_name(response))};
}

Error absent(const Asked& asked) {
  return {Code::kNotFound,
          fmt::format("{} is not on {}: it does not exist, is private or is misspelt; compare the name with "
                      "its page{}",
                      asked.id, asked.endpoint,
                      asked.sent_token ? "" : ", and for a private repository give a token in HF_TOKEN")};
}

Outcome refuse(Error error) { return {Verdict::kRefused, -1, std::move(error)}; }

/// A temporary error: repeated after the time that the server states, unless that is too long for a waiting
/// user.
Outcome wait_for_server(const ResponseHeader& response, std::string problem, const char* advice) {
  const double wait_s = wait_seconds(response).value_or(-1);
  if (wait_s > kLongestWaitS) {
    problem +=
        fmt::format("; try again in {:.0f} minutes, the same command continues{}", wait_s / 60 + 1, advice);
    return refuse({Code::kBusy, std::move(problem)});
  }
  return {Verdict::kRepeat, wait_s, {Code::kBusy, problem + "; try again later"}};
}

std::string subject(const Asked& asked) {
  return asked.path.empty() ? asked.id : fmt::format("{} of {}", asked.path, asked.id);
}

Outcome refuse_missing(std::string_view code, const Asked& asked) {
  if (code == "RevisionNotFound") {
    return refuse(
        {Code::kNotFound, fmt::format("{} has no branch, tag or commit '{}'", asked.id, asked.revision)});
  }
  if (code == "EntryNotFound" || !asked.path.empty()) {
    return refuse({Code::kNotFound,
                   fmt::format("{} is no longer in the repository; run the command again", subject(asked))});
  }
  return refuse(absent(asked));
}

Outcome refuse_permission(const ResponseHeader& response, std::string_view body, std::string_view code,
                          const Asked& asked) {
  if (code == "GatedRepo") return refuse(gated(response, body, asked));
  const bool disabled = response.header("x-error-message").find("disabled") != std::string_view::npos ||
                        body.find("Access to this resource is disabled") != std::string_view::npos;
  if (response.status == kForbidden && disabled) {
    return refuse({Code::kNotFound, fmt::format("the hub has disabled {}", asked.id)});
  }
  if (code == "RepoNotFound") return refuse(absent(asked));
  if (response.status == kUnauthorized && asked.sent_token) {
    return {
        Verdict::kWithoutToken,
        -1,
        {Code::kNotFound, "the stored token was refused; renew it with `hf auth login` or unset HF_TOKEN"}};
  }
  if (response.status == kUnauthorized) return refuse(absent(asked));
  return refuse(forbidden(response, body, asked));
}

}  // namespace

std::optional<double> wait_seconds(const ResponseHeader& response) {
  const std::string_view limit = response.header("ratelimit");
  if (const auto remaining = parameter(limit, "r"); remaining && *remaining == 0) {
    if (const auto reset = parameter(limit, "t")) return *reset + 1;
  }
  return number(response.header("retry-after"));
}

bool is_range(const ResponseHeader& response, std::int64_t first, std::int64_t last, std::int64_t size) {
  return response.header("content-range") == fmt::format("bytes {}-{}/{}", first, last, size);
}

Outcome classify(const ResponseHeader& response, std::string_view body, const Asked& asked) {
  const int status = response.status;
  if (status >= 200 && status < 300) return {};
  if (status >= 300 && status < 400 && !response.header("location").empty()) {
    return {Verdict::kRedirect,
            -1,
            {Code::kIo, fmt::format("{}: the server keeps redirecting; try again later", subject(asked))}};
  }
  if (status == kTooManyRequests) {
    return wait_for_server(response,
                           fmt::format("{} limits requests from this address for now", asked.endpoint),
                           asked.sent_token ? "" : " (a token in HF_TOKEN raises the limit)");
  }
  if (status == kRangeNotSatisfiable) {
    return {Verdict::kNoRange,
            -1,
            {Code::kIo, fmt::format("{}: the server refuses a byte range of it", subject(asked))}};
  }
  if (status == kTimeout || status >= kServerErrors) {
    return wait_for_server(
        response,
        fmt::format("the server answers {} with status {}{}", subject(asked), status, request_name(response)),
        "");
  }
  if (asked.by_signed_url && (status == kBadRequest || status == kForbidden || status == kUnauthorized)) {
    return {Verdict::kPlaceAgain,
            -1,
            {Code::kIo, fmt::format("the server of the file {} refuses it with status {}: {}{}",
                                    subject(asked), status, shown(body), request_name(response))}};
  }
  const std::string_view code = response.header("x-error-code");
  if (status == kTakenDown) {
    return refuse({Code::kNotFound, fmt::format("{} was taken down for legal reasons", asked.id)});
  }
  if (status == kNotFound) {
    return code == "GatedRepo" ? refuse(gated(response, body, asked)) : refuse_missing(code, asked);
  }
  if (status == kUnauthorized || status == kForbidden) return refuse_permission(response, body, code, asked);
  return refuse({Code::kIo, fmt::format("{} answers {} with status {}: {}{}", asked.endpoint, subject(asked),
                                        status, shown(body), request_name(response))});
}

}  // namespace ft::hub
