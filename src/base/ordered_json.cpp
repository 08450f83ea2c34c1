#include "base/ordered_json.h"

#include <map>
#include <utility>
#include <vector>

namespace ft {
namespace {

using Ordered = nlohmann::ordered_json;

/// Builds a tree in the order of the text. nlohmann's own parser looks at all earlier keys of an object for
/// each new one, so that an object of n keys costs n * n steps; this one keeps an index of large objects.
class OrderedBuilder final : public nlohmann::json_sax<Ordered> {
 public:
  explicit OrderedBuilder(std::size_t max_keys) : max_keys_(max_keys) {}
  OrderedJson take() { return std::move(result_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(std::size_t /*elements*/) override { return open(Ordered::object()); }
  bool start_array(std::size_t /*elements*/) override { return open(Ordered::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    auto& members = level.value->get_ref<Ordered::object_t&>();
    const std::size_t at = level.find(members, name);
    if (at == members.size()) {
      if (at >= max_keys_) return fail(OrderedJson::Problem::kKeys, 0);
      members.emplace_back(std::move(name), Ordered());
      level.add(members);
    }
    level.next = at;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOutOfRange = 406;
    const bool range = error.id == kNumberOutOfRange;
    return fail(range ? OrderedJson::Problem::kNumber : OrderedJson::Problem::kSyntax, position);
  }

 private:
  struct Level {
    Ordered* value = nullptr;
    std::size_t next = 0;  // the member that the next value is of
    std::map<std::string, std::size_t>
        index;  // of a large object's keys; no hash, since clients choose the keys

    /// The member of this name; the count of members if there is none.
    std::size_t find(const Ordered::object_t& members, const std::string& name) const {
      if (!index.empty()) {
        const auto found = index.find(name);
        return found == index.end() ? members.size() : found->second;
      }
      std::size_t at = 0;
      while (at < members.size() && members.begin()[static_cast<std::ptrdiff_t>(at)].first != name) ++at;
      return at;
    }

    /// Indexes the last member; all of them once they are many.
    void add(const Ordered::object_t& members) {
      constexpr std::size_t kMany = 32;
      if (members.size() < kMany) return;
      for (std::size_t at = index.empty() ? 0 : members.size() - 1; at < members.size(); ++at)
        index.emplace(members.begin()[static_cast<std::ptrdiff_t>(at)].first, at);
    }
  };

  bool fail(OrderedJson::Problem problem, std::size_t position) {
    result_.value = Ordered(Ordered::value_t::discarded);
    result_.problem = problem, result_.byte = position;
    return false;
  }

  template <class Value>
  Ordered* place(Value&& value) {
    if (levels_.empty()) {
      result_.value = std::forward<Value>(value);
      return &result_.value;
    }
    Level& level = levels_.back();
    if (level.value->is_array()) {
      auto& items = level.value->get_ref<Ordered::array_t&>();
      return &items.emplace_back(std::forward<Value>(value));
    }
    Ordered& member =
        level.value->get_ref<Ordered::object_t&>().begin()[static_cast<std::ptrdiff_t>(level.next)].second;
    member = std::forward<Value>(value);
    return &member;
  }

  template <class Value>
  bool put(Value&& value) {
    (void)place(std::forward<Value>(value));
    return true;
  }
  /// The place of an open container stays: its parent grows only after it is closed.
  bool open(Ordered container) {
    Level level;
    level.value = place(std::move(container));
    levels_.push_back(std::move(level));
    return true;
  }
  bool close() {
    levels_.pop_back();
    return true;
  }

  const std::size_t max_keys_;
  OrderedJson result_;
  std::vector<Level> levels_;
};

}  // namespace

OrderedJson read_ordered_json(std::string_view text, std::size_t max_keys) {
  OrderedBuilder builder(max_keys);
  (void)Ordered::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

}  // namespace ft
