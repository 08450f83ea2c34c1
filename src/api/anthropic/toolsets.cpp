#include "api/anthropic/toolsets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <span>

#include "api/fields.h"

namespace ft::api {
namespace {

struct Member {
  const char* name;
  const char* description;
  const char* parameters;  // names of parameter(); ? marks those that may be absent
  bool is_enabled = true;  // unless configs say otherwise
};

constexpr std::array<Member, 17> kComputer{{
    {"key", "Press a key, or several at once with + between them, such as ctrl+s.", "text repeat?"},
    {"hold_key", "Hold a key down for a number of seconds.", "text duration"},
    {"type", "Type a text on the keyboard.", "text"},
    {"cursor_position", "Get the position of the cursor in pixels.", ""},
    {"mouse_move", "Move the cursor to a point without a click.", "coordinate"},
    {"left_mouse_down", "Press the left mouse button and keep it down.", ""},
    {"left_mouse_up", "Release the left mouse button.", ""},
    {"left_click", "Click at a point, or at the cursor.", "coordinate? held_keys?"},
    {"left_click_drag", "Drag from start_coordinate to coordinate.",
     "coordinate start_coordinate held_keys?"},
    {"right_click", "Click the right button at a point, or at the cursor.", "coordinate? held_keys?"},
    {"middle_click", "Click the middle button at a point, or at the cursor.", "coordinate? held_keys?"},
    {"double_click", "Double-click at a point, or at the cursor.", "coordinate? held_keys?"},
    {"triple_click", "Triple-click at a point, or at the cursor.", "coordinate? held_keys?"},
    {"scroll", "Scroll at a point, or at the cursor.",
     "scroll_amount scroll_direction coordinate? held_keys?"},
    {"wait", "Wait for a number of seconds.", "duration"},
    {"screenshot", "Take a screenshot of the screen.", ""},
    {"zoom", "Take a screenshot of a part of the screen, enlarged.", "region"},
}};

constexpr std::array<Member, 31> kBrowser{{
    {"navigate", "Open an address, or go back, forward or reload.", "url tab_id?"},
    {"list_tabs", "List the open tabs.", ""},
    {"new_tab", "Open an empty tab.", ""},
    {"switch_tab", "Make a tab the active one.", "tab_id"},
    {"close_tab", "Close a tab.", "tab_id"},
    {"read_page", "Read the page as a tree of elements with references such as ref_7.",
     "depth? filter? ref? tab_id?"},
    {"get_page_text", "Read the visible text of the page.", "tab_id?"},
    {"read_console", "Read what was written to the console since the last call.", "tab_id?", false},
    {"read_network", "List the network requests since the last call.", "tab_id?", false},
    {"find", "Find elements that a description fits, with their references.", "query tab_id?"},
    {"form_input", "Set the value of a form's element.", "ref_target value tab_id?"},
    {"file_upload", "Choose files for a file input.", "ref_target paths? document_ids? tab_id?", false},
    {"scroll_to", "Scroll until an element is visible.", "ref_target tab_id?"},
    {"screenshot", "Take a screenshot of the page's visible part.", "tab_id?"},
    {"zoom", "Take a screenshot of a region of the visible part, enlarged.", "region tab_id?"},
    {"left_click", "Click at a point or on an element.", "target modifiers? tab_id?"},
    {"right_click", "Click the right button at a point or on an element.", "target modifiers? tab_id?"},
    {"middle_click", "Click the middle button at a point or on an element.", "target modifiers? tab_id?"},
    {"double_click", "Double-click at a point or on an element.", "target modifiers? tab_id?"},
    {"triple_click", "Triple-click at a point or on an element.", "target modifiers? tab_id?"},
    {"hover", "Move the cursor to a point or an element without a click.", "target tab_id?"},
    {"left_click_drag", "Drag from one point to another.", "from point_target tab_id?"},
    {"left_mouse_down", "Press the left mouse button at a point and keep it down.", "point_target tab_id?"},
    {"left_mouse_up", "Release the left mouse button at a point.", "point_target tab_id?"},
    {"mouse_move", "Move the cursor to a point without a click.", "point_target tab_id?"},
    {"scroll", "Scroll at a point.", "scroll_direction point_target scroll_amount? tab_id?"},
    {"type", "Type a text where the focus is.", "text tab_id?"},
    {"key", "Press a key, or several at once with + between them; a blank begins the next press.",
     "text repeat? tab_id?"},
    {"hold_key", "Hold a key down for a number of seconds.", "text seconds tab_id?"},
    {"wait", "Wait for a number of seconds.", "seconds tab_id?"},
    {"javascript_exec", "Run JavaScript in the page and return the value of its last expression.",
     "text tab_id?", false},
}};

Json typed(const char* type) { return Json{{"type", type}}; }

Json list_of(const char* type, int count) {
  Json list{{"type", "array"}, {"items", typed(type)}};
  if (count > 0) list["minItems"] = count, list["maxItems"] = count;
  return list;
}

Json one_of_values(Json values) { return Json{{"type", "string"}, {"enum", std::move(values)}}; }

Json described(Json schema, const char* description) {
  schema["description"] = description;
  return schema;
}

Json object_of(Json properties) {
  Json required = Json::array();
  for (const auto& [name, schema] : properties.items()) required.push_back(name);
  return Json{{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

Json point() {
  return object_of({{"type", {{"const", "coordinate"}}}, {"x", typed("integer")}, {"y", typed("integer")}});
}
Json element() { return object_of({{"type", {{"const", "ref"}}}, {"ref", typed("string")}}); }

struct Parameter {
  std::string name;
  Json schema;
};

/// A word of Member::parameters.
Parameter parameter(const std::string& word) {
  if (word == "repeat") return {word, described(typed("integer"), "How many times; once if absent")};
  if (word == "duration") return {word, described(typed("integer"), "Seconds")};
  if (word == "seconds") return {"duration", described(typed("number"), "Seconds")};
  if (word == "coordinate" || word == "start_coordinate") {
    return {word, described(list_of("integer", 2), "x and y in pixels from the upper left corner")};
  }
  if (word == "held_keys")
    return {"text", described(typed("string"), "Keys to hold meanwhile, such as ctrl")};
  if (word == "scroll_amount") return {word, described(typed("integer"), "The number of steps")};
  if (word == "scroll_direction") return {word, one_of_values({"up", "down", "left", "right"})};
  if (word == "region") {
    return {word, described(list_of("integer", 4), "x and y of two opposite corners")};
  }
  if (word == "tab_id") return {word, described(typed("string"), "The tab; the active one if absent")};
  if (word == "depth") return {word, described(typed("integer"), "How deep the tree is read")};
  if (word == "filter") return {word, one_of_values({"all", "interactive"})};
  if (word == "value") return {word, Json{{"type", {"string", "number", "boolean"}}}};
  if (word == "paths" || word == "document_ids") return {word, list_of("string", 0)};
  if (word == "modifiers")
    return {word, described(typed("string"), "Keys to hold meanwhile, such as ctrl+shift")};
  if (word == "target") return {word, Json{{"anyOf", {point(), element()}}}};
  if (word == "point_target") return {"target", point()};
  if (word == "from") return {word, point()};
  if (word == "ref_target") return {"target", element()};
  return {word, typed("string")};  // text, url, query, ref
}

Json function_of(const Member& member) {
  Json properties = Json::object(), required = Json::array();
  const std::string_view all(member.parameters);
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = std::min(all.find(' ', at), all.size());
    std::string_view word = all.substr(at, end - at);
    const bool optional = word.ends_with('?');
    if (optional) word.remove_suffix(1);
    Parameter read = parameter(std::string(word));
    if (!optional) required.push_back(read.name);
    properties[read.name] = std::move(read.schema);
    at = end + 1;
  }
  return Json{
      {"name", member.name},
      {"description", member.description},
      {"parameters",
       {{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}}}};
}

}  // namespace

std::optional<std::string> toolset_family(std::string_view type) {
  for (const std::string_view family : {"computer", "browser"}) {
    constexpr std::string_view kMiddle = "_toolset_";
    if (!type.starts_with(family) || !type.substr(family.size()).starts_with(kMiddle)) continue;
    const std::string_view date = type.substr(family.size() + kMiddle.size());
    const bool digits = std::ranges::all_of(date, [](unsigned char c) { return std::isdigit(c); });
    if (date.size() == 8 && digits) return std::string(family);
  }
  return std::nullopt;
}

Result<std::vector<Json>> toolset_members(const std::string& family, const Json& tool,
                                          const std::string& path) {
  const Fields fields(tool, path);
  FT_ASSIGN(const Json* configs, fields.object("configs"));
  const Json none = Json::object();
  const Fields settings(configs != nullptr ? *configs : none, fields.at("configs"));
  std::vector<Json> functions;
  const std::span<const Member> members =
      family == "computer" ? std::span<const Member>(kComputer) : std::span<const Member>(kBrowser);
  for (const Member& member : members) {
    FT_ASSIGN(const Json* config, settings.object(member.name));
    FT_ASSIGN(const auto enabled,
              Fields(config != nullptr ? *config : none, settings.at(member.name)).boolean("enabled"));
    if (enabled.value_or(member.is_enabled)) functions.push_back(function_of(member));
  }
  return functions;
}

}  // namespace ft::api
