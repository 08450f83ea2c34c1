// Notes: the parts of a request that its answer does not use. The server reports them in the response headers
// X-Skipped and X-Unknown-Fields, and once in its log.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft::api {

/// `name` cut, with question marks for everything but plain visible characters: for a header or a log.
std::string plain_name(std::string_view name);

struct Notes {
  std::map<std::string, int> skipped;  // how many blocks, items and tools of each type were left out
  std::vector<std::string> unknown;    // members of the body that no dialect knows

  /// Header fields; none if there are no notes. Names are plain, and only the first of many are listed.
  std::vector<std::pair<std::string, std::string>> headers() const;
};

}  // namespace ft::api
