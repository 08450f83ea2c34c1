#include "format/gguf/sentence_pieces.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "base/utf8.h"

namespace ft::format {
namespace {

constexpr std::int64_t kPiece = 1, kOwn = 4;  // ggml's kinds of tokens
constexpr std::size_t kMaxPieceBytes = 512;   // a longer piece is not made of others

std::int64_t characters_of(std::string_view text) { return static_cast<std::int64_t>(utf8_count(text)); }

struct Merge {
  double score;
  std::int64_t left, right;              // characters
  std::size_t piece, left_id, right_id;  // ties: earlier pieces first

  auto order() const { return std::tuple(-score, -left, -right, piece, left_id, right_id); }
};

}  // namespace

std::vector<std::string> merges_of_pieces(const std::vector<std::string>& pieces,
                                          const std::vector<double>& scores,
                                          const std::vector<std::int64_t>& kinds) {
  const auto usable = [&](std::size_t id) {
    const std::string& piece = pieces[id];
    return (kinds[id] == kPiece || kinds[id] == kOwn) && !piece.empty() && piece.size() <= kMaxPieceBytes &&
           piece.find(' ') == std::string::npos;
  };
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (usable(id)) ids.emplace(pieces[id], id);
  }
  std::vector<Merge> merges;
  for (const auto& [piece, id] : ids) {
    for (std::size_t at = 1; at < piece.size(); ++at) {
      if (!utf8_begins(piece[at])) continue;
      const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({scores[id], characters_of(left->first), characters_of(right->first), id, left->second,
                        right->second});
    }
  }
  std::ranges::sort(merges, {}, &Merge::order);
  std::vector<std::string> texts;
  texts.reserve(merges.size());
  for (const Merge& merge : merges) texts.push_back(pieces[merge.left_id] + " " + pieces[merge.right_id]);
  return texts;
}

}  // namespace ft::format
