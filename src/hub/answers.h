// The meaning of a hub's answer and the next action. Source: the codes of X-Error-Code in huggingface_hub
// (utils/_http.py), and the IETF draft of the RateLimit headers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "hub/transport.h"

namespace ft::hub {

enum class Verdict {
  kGood,          // 2xx
  kRedirect,      // 3xx with a Location
  kRepeat,        // passes by itself: repeat after wait_s
  kWithoutToken,  // the stored token was refused: once more without it
  kPlaceAgain,    // the signed URL expired, or was refused
  kNoRange,       // the server cannot send this range
  kRefused,       // the user must act
};

struct Asked {
  std::string endpoint, id, revision, path;  // path: of the file; empty: about the repository
  bool sent_token = false;
  bool by_signed_url = false;  // another host, without token
};

struct Outcome {
  Verdict verdict = Verdict::kGood;
  double wait_s = -1;  // kRepeat: from the server; negative: not given
  Error error;         // for every verdict but kGood; kRedirect: if there are too many
};

inline constexpr double kLongestWaitS = 120;
inline constexpr std::size_t kShownBodyBytes = 300;

/// `body`: the first bytes of the answer's text.
Outcome classify(const ResponseHeader& response, std::string_view body, const Asked& asked);

/// Seconds to wait according to RateLimit (nothing remains) or Retry-After.
std::optional<double> wait_seconds(const ResponseHeader& response);

/// Whether Content-Range is exactly these bytes of a file of `size`.
bool is_range(const ResponseHeader& response, std::int64_t first, std::int64_t last, std::int64_t size);

}  // namespace ft::hub
