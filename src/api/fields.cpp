#include "api/fields.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/ordered_json.h"
#include "text/chat_template.h"
#include "text/json_text.h"

namespace ft::api {
namespace {

/// Code that looks for a key in an object reads all its keys.
constexpr std::size_t kMaxObjectKeys = 10'000;

}  // namespace

Error wrong(const std::string& field, const std::string& sentence) {
  return Error{Code::kInvalid, field.empty() ? sentence : fmt::format("{}: {}", field, sentence), field};
}

Result<Json> parse_body(std::string_view body) {
  if (body.empty()) return wrong("", "the body is empty; send a JSON object");
  if (json_depth(body) > kMaxJsonDepth) {
    return wrong("", fmt::format("the body is nested deeper than {}; flatten it", kMaxJsonDepth));
  }
  OrderedJson read = read_ordered_json(body, kMaxObjectKeys);
  switch (read.problem) {
    case OrderedJson::Problem::kSyntax:
      return wrong("", fmt::format("invalid JSON: unexpected input at byte {}", read.byte));
    case OrderedJson::Problem::kNumber:
      return wrong("", "invalid JSON: a value cannot be read; check that numbers are in range");
    case OrderedJson::Problem::kKeys:
      return wrong("", fmt::format("an object of the body has more than {} keys; send a list, or fewer keys",
                                   kMaxObjectKeys));
    case OrderedJson::Problem::kNone:
      break;
  }
  if (!read.value.is_object()) {
    return wrong("", fmt::format("the body must be a JSON object, found {}", kind_of(read.value)));
  }
  return std::move(read.value);
}

std::string kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::null:
      return "null";
    default:
      return value.dump();
  }
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

void add_frame(std::string_view name, const Json& data, std::string& out) {
  if (!name.empty()) (out += "event: ").append(name) += '\n';
  (out += "data: ").append(dump(data)) += "\n\n";
}

std::string Fields::at(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

Result<std::optional<float>> Fields::number(std::string_view name, double low, double high) const {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<float>();
  if (!value->is_number()) return wrong(at(name), fmt::format("must be a number, found {}", kind_of(*value)));
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) {
    return wrong(at(name), fmt::format("must be between {:g} and {:g}, found {:g}", low, high, number));
  }
  return std::optional<float>(static_cast<float>(number));
}

Result<std::optional<std::int64_t>> Fields::integer(std::string_view name, std::int64_t low,
                                                    std::int64_t high) const {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<std::int64_t>();
  double number = 0;
  if (value->is_number()) number = value->get<double>();
  constexpr double kExact = 9007199254740992.0;  // 2^53: 5.0 is an integer too, 1e300 is not
  const bool whole =
      value->is_number_integer() || (number == std::floor(number) && std::abs(number) < kExact);
  if (!value->is_number() || !whole) {
    return wrong(at(name), fmt::format("must be an integer, found {}", kind_of(*value)));
  }
  const bool inside = number >= static_cast<double>(low) && number <= static_cast<double>(high);
  if (!inside)
    return wrong(at(name), fmt::format("must be between {} and {}, found {}", low, high, value->dump()));
  if (value->is_number_integer()) return std::optional<std::int64_t>(value->get<std::int64_t>());
  return std::optional<std::int64_t>(static_cast<std::int64_t>(number));
}

Result<std::optional<bool>> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) {
    return wrong(at(name), fmt::format("must be true or false, found {}", kind_of(*value)));
  }
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> Fields::text(std::string_view name) const {
  const Json* value = find(name);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong(at(name), fmt::format("must be a string, found {}", kind_of(*value)));
  return std::optional<std::string>(value->get<std::string>());
}

Result<std::optional<std::string>> Fields::word(std::string_view name,
                                                const std::vector<std::string_view>& choices) const {
  FT_ASSIGN(std::optional<std::string> found, text(name));
  if (!found) return found;
  for (const std::string_view choice : choices) {
    if (*found == choice) return found;
  }
  return wrong(at(name), fmt::format("must be one of {}, found \"{}\"", fmt::join(choices, ", "), *found));
}

Result<const Json*> Fields::object(std::string_view name) const {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) {
    return wrong(at(name), fmt::format("must be an object, found {}", kind_of(*value)));
  }
  return value;
}

Result<const Json*> Fields::array(std::string_view name, std::size_t most) const {
  const Json* value = find(name);
  if (value == nullptr) return value;
  if (!value->is_array()) return wrong(at(name), fmt::format("must be a list, found {}", kind_of(*value)));
  if (value->size() > most) {
    return wrong(at(name), fmt::format("at most {} are allowed, found {}", most, value->size()));
  }
  return value;
}

}  // namespace ft::api
