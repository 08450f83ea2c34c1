#include "format/json_text.h"

#include <cstdint>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "format/tensor.h"

namespace ft::format {
namespace {

using nlohmann::json;

// Builds the DOM itself, so that depth and duplicate keys are checked during reading, before anything is
// stored.
class DomBuilder : public nlohmann::json_sax<json> {
 public:
  explicit DomBuilder(DuplicateKeys duplicates) : duplicates_(duplicates), root_(new json()) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(std::int64_t value) override { return put(value); }
  bool number_unsigned(std::uint64_t value) override { return put(value); }
  bool number_float(double value, const std::string& /*text*/) override { return put(value); }
  bool string(std::string& value) override { return put(std::move(value)); }
  bool binary(json::binary_t& /*value*/) override { return fail("binary data"); }
  bool start_object(std::size_t /*size*/) override { return open(json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    if (duplicates_ == DuplicateKeys::kRefuse && open_.back()->contains(name)) {
      return fail("the key " + in_quotes(name) + " twice");
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*e*/) override {
    return fail("a syntax error at byte " + std::to_string(position));
  }

  JsonDocument take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

 private:
  bool fail(std::string problem) {
    problem_ = std::move(problem);
    return false;
  }

  json* place(json value) {
    if (open_.empty()) {
      *root_ = std::move(value);
      return root_.get();
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool put(json value) {
    place(std::move(value));
    return true;
  }

  bool open(json value) {
    if (open_.size() >= static_cast<std::size_t>(kMaxJsonDepth)) {
      return fail("more than " + std::to_string(kMaxJsonDepth) + " levels");
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  DuplicateKeys duplicates_;
  JsonDocument root_;
  std::vector<json*> open_;  // the containers around the current place, outermost first
  std::string key_;
  std::string problem_;
};

/// Recursion is bounded by kMaxJsonDepth.
void drain(json& value) noexcept {
  if (auto* list = value.get_ptr<json::array_t*>()) {
    for (; !list->empty(); list->pop_back()) drain(list->back());
  } else if (auto* object = value.get_ptr<json::object_t*>()) {
    for (; !object->empty(); object->erase(object->begin())) drain(object->begin()->second);
  }
}

/// The text with NaN and Infinity as strings: Python writes these numbers, JSON does not know them. A key
/// that nobody reads may have one; a number that is read is refused by its key. Empty: the text has none.
std::string quoted_numbers(std::string_view text) {
  constexpr std::string_view kWords[] = {"NaN", "Infinity", "-Infinity"};
  std::string out;
  std::size_t copied = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_string && c == '\\') ++at;
    if (c == '"') in_string = !in_string;
    if (in_string || (c != 'N' && c != 'I' && c != '-')) continue;
    for (const std::string_view word : kWords) {
      if (!text.substr(at).starts_with(word)) continue;
      out.append(text.substr(copied, at - copied)).append("\"").append(word).append("\"");
      at += word.size() - 1, copied = at + 1;
      break;
    }
  }
  return copied == 0 ? out : out.append(text.substr(copied));
}

}  // namespace

void DrainingDelete::operator()(json* root) const noexcept {
  drain(*root);
  delete root;
}

Result<JsonDocument> parse_json(std::string_view text, const std::string& origin, DuplicateKeys duplicates) {
  const std::string quoted = duplicates == DuplicateKeys::kLastWins ? quoted_numbers(text) : std::string();
  if (!quoted.empty()) text = quoted;
  DomBuilder builder(duplicates);
  if (!json::sax_parse(text.begin(), text.end(), &builder)) {
    return Error{Code::kCorrupt, origin + ": expected JSON, found " + builder.problem() +
                                     "; the file is damaged or not what its name says: download it again"};
  }
  return builder.take();
}

Result<JsonDocument> read_json_object(const std::string& path) {
  FT_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.size() > kMaxConfigBytes) {
    return Error{Code::kCorrupt, path + ": expected at most " + std::to_string(kMaxConfigBytes) +
                                     " bytes of JSON, found " + std::to_string(text.size()) +
                                     "; this is not a model's configuration: download it again"};
  }
  FT_ASSIGN(JsonDocument root, parse_json(text, path, DuplicateKeys::kLastWins));
  if (!root->is_object()) {
    return Error{Code::kCorrupt, path + ": expected a JSON object, found " + std::string(root->type_name()) +
                                     "; download the file again"};
  }
  return root;
}

}  // namespace ft::format
