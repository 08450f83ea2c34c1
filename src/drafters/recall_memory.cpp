// The texts of a RecallDrafter as bytes, and back: the number of users, and for each the owner and the
// tokens of the ring from the oldest to the newest, -1 between two texts.
#include <algorithm>

#include "drafters/recall.h"

namespace ft {

std::vector<std::int32_t> RecallRing::texts() const {
  std::vector<std::int32_t> tokens;
  const std::int64_t first = std::max<std::int64_t>(0, end_ - std::ssize(ring_));
  tokens.reserve(static_cast<std::size_t>(end_ - first));
  for (std::int64_t position = first; position < end_; ++position) tokens.push_back(at(position));
  return tokens;
}

bool RecallDrafter::write_to(ByteSink& sink) const {
  if (!put_value(sink, static_cast<std::int32_t>(users_.size()))) return false;
  return std::ranges::all_of(users_, [&](const User& user) {
    return put_value(sink, user.owner) && put_list<std::int32_t>(sink, user.ring.texts());
  });
}

Status RecallDrafter::read_from(ByteSource& source, int vocabulary) {
  const Error unfit{Code::kCorrupt, "its bytes are not texts of earlier requests"};
  std::int32_t count = 0;
  if (!get_value(source, count) || count < 0 || count > kUsers) return unfit;
  std::list<User> users;
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) {
    std::uint64_t owner = 0;
    if (!get_value(source, owner) || !get_list(source, tokens)) return unfit;
    const auto known = [&](std::int32_t token) { return token >= -1 && token < vocabulary; };
    const bool again = std::ranges::find(users, owner, &User::owner) != users.end();
    if (again || !std::ranges::all_of(tokens, known)) return unfit;
    if (ring_tokens() < kMinTokens) continue;  // the memory is off
    users.push_back({owner, RecallRing(ring_tokens())});
    for (const std::int32_t token : tokens) users.back().ring.append(token);
  }
  if (source.left() > 0) return unfit;
  users_ = std::move(users);
  return {};
}

}  // namespace ft
