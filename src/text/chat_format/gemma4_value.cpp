#include "text/chat_format/gemma4_value.h"

#include <algorithm>
#include <optional>

#include "text/chat_format/gemma4_tags.h"
#include "text/json_text.h"
#include "text/schema_graph.h"
#include "text/tags.h"

namespace ft {

namespace {

constexpr int kMaxNesting = 100;

std::string_view trimmed_value(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(kTagSpace), text.size());
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kTagSpace) + 1);
}

bool is_literal(std::string_view text) {
  const bool word = text == "true" || text == "false" || text == "null";
  const bool number = !text.empty() && (text[0] == '-' || (text[0] >= '0' && text[0] <= '9'));
  return word || (number && is_json(text, 1));
}

/// Reads one value after another from the front of a text.
class Reader {
 public:
  /// `cut`: the text may stop anywhere, and so does the JSON.
  explicit Reader(std::string_view text, bool cut = false) : rest_(text), cut_(cut) {}

  /// Appends the JSON of the next value; false if there is none.
  bool value(std::string& out, int depth) {
    skip_space();
    if (depth > kMaxNesting) return false;
    if (eat(gemma4_tags::kQuote)) return string(gemma4_tags::kQuote, out);
    if (rest_.starts_with('"') && json_string(out)) return true;
    if (eat("{")) return list('}', out, depth);
    if (eat("[")) return list(']', out, depth);
    const std::string_view bare = trimmed_value(take_until(",}]"));
    if (bare.empty()) return false;
    if (cut_ && rest_.empty()) {  // it may be the beginning of anything
      if (is_literal(bare)) out += bare;
      return stop();
    }
    out += is_literal(bare) ? std::string(bare) : json_quoted(bare);
    return true;
  }

  bool done() {
    skip_space();
    return rest_.empty();
  }

 private:
  void skip_space() { rest_.remove_prefix(std::min(rest_.find_first_not_of(kTagSpace), rest_.size())); }

  bool eat(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::string_view take_until(std::string_view ends) {
    const std::string_view taken = rest_.substr(0, rest_.find_first_of(ends));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  /// The text was cut here: nothing more is written.
  bool stop() {
    stopped_ = true;
    rest_ = {};
    return true;
  }

  /// Up to `end`; a text that stops before it ends there.
  bool string(std::string_view end, std::string& out) {
    const size_t size = std::min(rest_.find(end), rest_.size());
    out += json_quoted(rest_.substr(0, size));
    if (cut_ && size == rest_.size()) {
      out.pop_back();
      return stop();
    }
    rest_.remove_prefix(std::min(size + end.size(), rest_.size()));
    return true;
  }

  bool json_string(std::string& out) {
    for (size_t at = 1; at < rest_.size(); ++at) {
      if (rest_[at] == '\\') {
        ++at;
      } else if (rest_[at] == '"') {
        const std::string_view whole = rest_.substr(0, at + 1);
        if (!is_json(whole, 1)) return false;
        out += whole;
        rest_.remove_prefix(whole.size());
        return true;
      }
    }
    return false;
  }

  bool key(std::string& out) {
    skip_space();
    if (eat(gemma4_tags::kQuote)) {
      string(gemma4_tags::kQuote, out);
    } else if (!rest_.starts_with('"') || !json_string(out)) {
      out += json_quoted(trimmed_value(take_until(":,}")));
    }
    skip_space();
    return eat(":");
  }

  bool list(char end, std::string& out, int depth) {
    const std::string_view close(&end, 1);
    out += end == '}' ? '{' : '[';
    for (bool first = true; !done() && !rest_.starts_with(close); first = false) {
      if (!first && !eat(",")) return false;
      out += first ? "" : ",";
      if (end == '}') {
        const size_t before = out.size();
        if (!key(out) || stopped_) {
          if (!cut_ || !rest_.empty()) return false;
          out.erase(before);  // a key without its colon
          return stop();
        }
        out += ':';
      }
      if (cut_ && done()) return stop();
      if (!value(out, depth + 1)) return false;
      if (stopped_) return true;
      skip_space();
    }
    if (cut_ && rest_.empty()) return stop();
    eat(close);  // a text that stops inside is closed
    out += end;
    return true;
  }

  std::string_view rest_;
  const bool cut_;
  bool stopped_ = false;
};

}  // namespace

std::string json_of_gemma4_value(std::string_view text, const ParameterType& type) {
  const std::string_view bare = trimmed_value(text);
  if (bare.starts_with(gemma4_tags::kQuote)) {
    std::string_view inside = bare.substr(gemma4_tags::kQuote.size());
    inside = inside.substr(0, inside.find(gemma4_tags::kQuote));
    return type.allows(JsonKind::kString) ? json_quoted(inside) : json_of_parameter(inside, type);
  }
  const bool nested = bare.starts_with('{') || bare.starts_with('[') || bare.starts_with('"');
  std::string json;
  Reader reader(bare);
  if (nested && reader.value(json, 1) && reader.done() && is_json(json, kMaxNesting + 1)) return json;
  return type.is_anything() && is_literal(bare) ? std::string(bare) : json_of_parameter(bare, type);
}

std::string cut_json_of_gemma4_value(std::string_view text, const ParameterType& type) {
  const std::string_view begun = trimmed_value(text);
  if (begun.starts_with(gemma4_tags::kQuote) && !type.allows(JsonKind::kString)) return {};
  std::string json;
  if (!Reader(begun, true).value(json, 1)) json.clear();
  return json;
}

}  // namespace ft
