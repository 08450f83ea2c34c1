#include "format/key_reader.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace ft::format {
namespace {

using nlohmann::json;

constexpr std::size_t kShownBytes = 60;

std::string shown(const json* value) {
  if (value == nullptr) return "nothing";
  std::string text = value->dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kShownBytes) text = text.substr(0, kShownBytes) + "...";
  return text;
}

std::string range_text(const char* kind, double low, double high) {
  std::ostringstream text;
  text.precision(15);
  text << kind << " from " << low << " to " << high;
  return text.str();
}

}  // namespace

const json* KeyReader::find(const char* key) const {
  if (!object_.is_object()) return nullptr;
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

void KeyReader::fail(Code code, const std::string& message) {
  if (status_.ok()) status_ = Error{code, message};
}

void KeyReader::fail(const char* key, const std::string& expected, const json* found) {
  const bool top_level = where_.ends_with(".json");
  fail(Code::kInvalid, where_ + (top_level ? ": " : ".") + key + ": expected " + expected + ", found " +
                           shown(found) + "; correct the file or download it again");
}

std::int64_t KeyReader::whole64(const char* key, std::int64_t otherwise, std::int64_t low,
                                std::int64_t high) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  bool fits = value->is_number_integer();
  if (fits && value->is_number_unsigned()) {
    fits = high >= 0 && value->get<std::uint64_t>() <= static_cast<std::uint64_t>(high);
  }
  if (!fits || value->get<std::int64_t>() < low || value->get<std::int64_t>() > high) {
    fail(key, range_text("a whole number", static_cast<double>(low), static_cast<double>(high)), value);
    return otherwise;
  }
  return value->get<std::int64_t>();
}

int KeyReader::whole(const char* key, int otherwise, int low, int high) {
  return static_cast<int>(whole64(key, otherwise, low, high));
}

std::optional<int> KeyReader::optional_whole(const char* key, int low, int high) {
  if (find(key) == nullptr) return std::nullopt;
  return whole(key, low, low, high);
}

double KeyReader::real(const char* key, double otherwise, double low, double high) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    fail(key, range_text("a number", low, high), value);
    return otherwise;
  }
  return number;
}

std::optional<double> KeyReader::optional_real(const char* key, double low, double high) {
  if (find(key) == nullptr) return std::nullopt;
  return real(key, low, low, high);
}

std::optional<bool> KeyReader::optional_flag(const char* key) {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    fail(key, "true or false", value);
    return std::nullopt;
  }
  return value->get<bool>();
}

bool KeyReader::flag(const char* key, bool otherwise) { return optional_flag(key).value_or(otherwise); }

std::string KeyReader::text(const char* key, const std::string& otherwise) {
  const json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) {
    fail(key, "a string", value);
    return otherwise;
  }
  return value->get<std::string>();
}

const json& KeyReader::object(const char* key) {
  static const json kEmpty = json::object();
  const json* value = find(key);
  if (value == nullptr) return kEmpty;
  if (!value->is_object()) {
    fail(key, "an object", value);
    return kEmpty;
  }
  return *value;
}

}  // namespace ft::format
