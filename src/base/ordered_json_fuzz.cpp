// Feeds arbitrary texts to the parser of clients' JSON: it accepts the same texts as nlohmann's parser and
// gives the same tree, except for objects with too many keys. Its tree is unchanged after writing and reading
// again.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "base/ordered_json.h"

namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::size_t kMaxKeys = 40;  // more than the parser looks at one after another
constexpr int kMaxDepth = 500;        // the other parser's tree is compared recursively

void demand(bool holds) {
  if (!holds) std::abort();
}

int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

std::size_t most_keys(const Ordered& value) {
  std::size_t most = value.is_object() ? value.size() : 0;
  if (value.is_structured())
    for (const Ordered& part : value) most = std::max(most, most_keys(part));
  return most;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (depth_of(text) > kMaxDepth) return 0;
  const ft::OrderedJson all = ft::read_ordered_json(text);
  const Ordered usual = ft::read_json<Ordered>(text);
  demand(all.value.is_discarded() == (all.problem != ft::OrderedJson::Problem::kNone));
  demand(all.value.is_discarded() == usual.is_discarded());
  const ft::OrderedJson few = ft::read_ordered_json(text, kMaxKeys);
  if (all.value.is_discarded()) {
    demand(few.value.is_discarded());
    return 0;
  }
  demand(ft::write_json(all.value) == ft::write_json(usual));
  const bool fits = most_keys(all.value) <= kMaxKeys;
  if (fits) demand(few.problem == ft::OrderedJson::Problem::kNone);
  if (few.problem == ft::OrderedJson::Problem::kNone) demand(few.value == all.value);
  demand(ft::write_json(ft::read_json<Ordered>(ft::write_json(all.value))) == ft::write_json(all.value));
  return 0;
}
