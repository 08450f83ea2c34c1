#include "api/openai/responses_tools.h"

#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "api/openai/client_calls.h"
#include "api/openai/tools_request.h"

namespace ft::api {
namespace {

/// The member `name` as text; empty if it is not a text.
std::string text_of(const Json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

class ToolCollector {
 public:
  explicit ToolCollector(GenerateParams& call) : call_(call) {}

  /// Names that no other tool may take, since the client uses them for its own.
  void reserve(const Json& list) {
    for (const Json& tool : list) {
      const std::string type = text_of(tool, "type");
      if (type.empty() || type == "function" || type == "custom") reserved_.insert(text_of(tool, "name"));
    }
  }

  /// `brought`: an item of the conversation adds the tool, and may repeat a tool that the request offers.
  Status add(const Json& list, const std::string& path, bool brought) {
    brought_ = brought;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string here = fmt::format("{}[{}]", path, i);
      if (!list[i].is_object())
        return wrong(here, fmt::format("must be an object, found {}", kind_of(list[i])));
      FT_TRY(text_of(list[i], "type") == "namespace" ? add_space(list[i], here) : add_tool(list[i], here));
    }
    return {};
  }

  Result<Json> finish() {
    if (tools_.size() > kMaxTools) {
      return wrong("tools", fmt::format("at most {} are allowed, found {}, counting the tools of namespaces",
                                        kMaxTools, tools_.size()));
    }
    if (!tools_.empty()) call_.tools = dump(tools_);
    return std::move(tools_);
  }

 private:
  Status add_space(const Json& given, const std::string& path) {
    const Fields fields(given, path);
    FT_ASSIGN(const auto space, fields.text("name"));
    if (!space || space->empty()) return wrong(fields.at("name"), "is missing; each namespace has a name");
    FT_ASSIGN(const auto description, fields.text("description"));
    FT_ASSIGN(const Json* list, fields.array("tools", kMaxTools));
    // The first tool carries the description of the namespace.
    std::string heading = description.value_or("");
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const std::string here = fmt::format("{}[{}]", fields.at("tools"), i);
      const Json& tool = (*list)[i];
      if (!tool.is_object()) return wrong(here, fmt::format("must be an object, found {}", kind_of(tool)));
      const std::string name = text_of(tool, "name");
      if (name.empty()) return wrong(here + ".name", "is missing; each tool has a name");
      Json named = tool;
      named["name"] = free_name(joined_name(*space, name));
      if (!heading.empty()) {
        const std::string own = text_of(tool, "description");
        named["description"] =
            fmt::format("(Tools of {}: {}){}{}", *space, heading, own.empty() ? "" : "\n", own);
      }
      FT_ASSIGN(const bool added, take(named, here, {*space, name, ""}));
      if (added) heading.clear();
    }
    return {};
  }

  Status add_tool(const Json& given, const std::string& path) {
    FT_ASSIGN(std::optional<Json> function, client_tool_function(given, path));
    const std::string type = text_of(given, "type");
    if (!function) {
      FT_TRY(take(given, path, {"", text_of(given, "name"), ""}));
      return {};
    }
    (*function)["type"] = "function";
    (*function)["name"] = free_name(type);
    FT_TRY(take(*function, path, {"", type, type}));
    return {};
  }

  /// A name that no other tool has.
  std::string free_name(std::string name) const {
    while (reserved_.contains(name) || call_.call_names.contains(name)) name += '_';
    return name;
  }

  /// False if the tool exists already, or is left out.
  Result<bool> take(const Json& given, const std::string& path, const CallName& name) {
    const bool plain = name.space.empty() && name.client_tool.empty();
    const bool known = known_.contains({name.space, name.name, name.client_tool});
    if (known && (brought_ || !plain)) return false;
    if (brought_ && tools_.size() >= kMaxTools) {
      ++call_.notes.skipped["tools beyond the limit"];
      return false;
    }
    FT_ASSIGN(Json function, read_tool(given, path, call_));
    if (function.is_null()) return false;
    if (!plain) call_.call_names[function["name"].get<std::string>()] = name;
    known_.insert({name.space, name.name, name.client_tool});
    tools_.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
    return true;
  }

  GenerateParams& call_;
  Json tools_ = Json::array();
  std::set<std::array<std::string, 3>> known_;
  std::set<std::string> reserved_;
  bool brought_ = false;
};

/// The tools that an item brings; null if it brings none.
const Json* tools_of(const Json& item) {
  const std::string type = text_of(item, "type");
  if (type != "tool_search_output" && type != "additional_tools") return nullptr;
  const auto tools = item.find("tools");
  return tools != item.end() && tools->is_array() ? &*tools : nullptr;
}

}  // namespace

Result<Json> read_responses_tools(const Fields& fields, const Json& items, std::size_t skipped,
                                  GenerateParams& call) {
  FT_ASSIGN(const Json* given, fields.array("tools", kMaxTools));
  ToolCollector collector(call);
  if (given != nullptr) collector.reserve(*given);
  for (const Json& item : items) {
    if (const Json* tools = tools_of(item)) collector.reserve(*tools);
  }
  if (given != nullptr) FT_TRY(collector.add(*given, "tools", false));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Json* tools = tools_of(items[i]);
    if (tools == nullptr) continue;
    const std::string path = i < skipped ? fmt::format("previous_response_id[{}].tools", i)
                                         : fmt::format("input[{}].tools", i - skipped);
    FT_TRY(collector.add(*tools, path, true));
  }
  return collector.finish();
}

OfferedNames::OfferedNames(const std::map<std::string, CallName>& call_names) {
  for (const auto& [offered, name] : call_names) {
    if (name.client_tool.empty()) {
      names_[{name.space, name.name}] = offered;
    } else {
      client_tools_[name.client_tool] = offered;
    }
  }
}

std::string OfferedNames::of(const std::string& space, const std::string& name) const {
  const auto found = names_.find({space, name});
  return found != names_.end() ? found->second : joined_name(space, name);
}

std::string OfferedNames::of_client_tool(const std::string& type) const {
  const auto found = client_tools_.find(type);
  return found != client_tools_.end() ? found->second : type;
}

}  // namespace ft::api
