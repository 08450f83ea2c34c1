#include "sampling/rejection.h"

#include <algorithm>

#include "base/assert.h"
#include "sampling/philox.h"

namespace ft {
namespace {

/// Walks max(0, p - q) in ascending order of token: visit(token, mass), until it returns true.
template <class Visit>
void walk_residual(const Distribution& p, const Distribution& q, Visit visit) {
  auto other = q.entries.begin();
  for (const auto& [token, probability] : p.entries) {
    while (other != q.entries.end() && other->first < token) ++other;
    const bool shared = other != q.entries.end() && other->first == token;
    const double rest =
        static_cast<double>(probability) - (shared ? static_cast<double>(other->second) : 0.0);
    if (rest > 0 && visit(token, rest)) return;
  }
}

}  // namespace

std::int32_t draw(const Distribution& from, std::uint64_t seed, std::int64_t position, Stream stream) {
  FT_ASSERT(!from.entries.empty());
  double sum = 0;
  for (const auto& entry : from.entries) sum += static_cast<double>(entry.second);
  const double point = uniform(seed, position, 0, stream) * sum;
  double reached = 0;
  for (const auto& [token, probability] : from.entries) {
    reached += static_cast<double>(probability);
    if (reached > point) return token;
  }
  return from.entries.back().first;
}

RejectionOutcome rejection_sample(const Distribution& p, const Distribution& q, std::int32_t draft,
                                  std::uint64_t seed, std::int64_t position) {
  const auto have = static_cast<double>(p.probability(draft));
  const auto proposed = static_cast<double>(q.probability(draft));
  if (uniform(seed, position, 0, Stream::kAccept) * proposed < have) return {true, draft};
  double mass = 0;
  walk_residual(p, q, [&](std::int32_t, double rest) {
    mass += rest;
    return false;
  });
  if (!(mass > 0)) return {false, draw(p, seed, position, Stream::kResidual)};
  const double point = uniform(seed, position, 0, Stream::kResidual) * mass;
  double reached = 0;
  std::int32_t chosen = 0;
  walk_residual(p, q, [&](std::int32_t token, double rest) {
    reached += rest;
    chosen = token;  // the last token remains if rounding puts the point beyond the end
    return reached > point;
  });
  return {false, chosen};
}

}  // namespace ft
