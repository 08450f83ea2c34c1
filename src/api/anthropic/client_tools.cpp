#include "api/anthropic/client_tools.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace ft::api {
namespace {

Json of(const char* type, const std::string& description) {
  return Json{{"type", type}, {"description", description}};
}

Json one_of(Json values, const std::string& description) {
  return Json{{"type", "string"}, {"enum", std::move(values)}, {"description", description}};
}

Json integers(int count, const std::string& description) {
  return Json{{"type", "array"},
              {"items", {{"type", "integer"}}},
              {"minItems", count},
              {"maxItems", count},
              {"description", description}};
}

Json parameters(Json properties, Json required) {
  return Json{{"type", "object"}, {"properties", std::move(properties)}, {"required", std::move(required)}};
}

/// The members that a value of a parameter requires.
using Needs = std::vector<std::pair<const char*, Json>>;

/// Adds to `parameters` the members that a call requires for each value of `selector`; the programs that run
/// these tools fail without them.
void require_by(Json& parameters, const char* selector, const Needs& needs) {
  std::vector<Json> others = parameters["properties"][selector]["enum"];
  Json branches = Json::array();
  for (const auto& [value, required] : needs) {
    branches.push_back(
        Json{{"properties", {{selector, {{"enum", Json::array({value})}}}}}, {"required", required}});
    std::erase(others, Json(value));
  }
  if (!others.empty()) branches.push_back(Json{{"properties", {{selector, {{"enum", std::move(others)}}}}}});
  parameters["anyOf"] = std::move(branches);
}

Json bash() {
  Json taken = parameters({{"command", of("string", "The command to run; required unless restart is true")},
                           {"restart", of("boolean", "True to start the session again")}},
                          Json::array());
  taken["anyOf"] =
      Json::array({Json{{"required", {"command"}}},
                   Json{{"properties", {{"restart", {{"const", true}}}}}, {"required", {"restart"}}}});
  return Json{{"name", "bash"},
              {"description", "Run a command in a bash session that keeps its state between calls."},
              {"parameters", std::move(taken)}};
}

Json text_editor(std::string_view date) {
  Json commands = Json::array({"view", "create", "str_replace", "insert"});
  const bool older = date < "20250429";
  if (older) commands.push_back("undo_edit");
  const char* inserted = date < "20250728" ? "new_str" : "insert_text";
  Json properties{
      {"command", one_of(std::move(commands), "What to do")},
      {"path", of("string", "The path of a file, or of a folder to view")},
      {"file_text", of("string", "For create: the text of the new file")},
      {"old_str", of("string", "For str_replace: the text to replace, which occurs once")},
      {"new_str", of("string", "For str_replace: the text to put in its place")},
      {"insert_line", of("integer", "For insert: the line after which to insert; 0: at the start")}};
  properties[inserted] =
      of("string", inserted == std::string_view("new_str")
                       ? "For str_replace: the text to put in its place; for insert: the text"
                       : "For insert: the text");
  properties["view_range"] = integers(2, "For view: the first and the last line; -1: the end of the file");
  Json taken = parameters(std::move(properties), {"command", "path"});
  require_by(
      taken, "command",
      {{"create", {"file_text"}}, {"str_replace", {"old_str"}}, {"insert", {"insert_line", inserted}}});
  return Json{{"name", older ? "str_replace_editor" : "str_replace_based_edit_tool"},
              {"description", "View, create and edit text files."},
              {"parameters", std::move(taken)}};
}

Json memory() {
  Json taken = parameters(
      {{"command", one_of({"view", "create", "str_replace", "insert", "delete", "rename"}, "What to do")},
       {"path", of("string", "The path in /memories; for every command except rename")},
       {"view_range", integers(2, "For view: the first and the last line")},
       {"file_text", of("string", "For create: the text of the file")},
       {"old_str", of("string", "For str_replace: the text to replace")},
       {"new_str", of("string", "For str_replace: the text to put in its place")},
       {"insert_line", of("integer", "For insert: the line after which to insert")},
       {"insert_text", of("string", "For insert: the text")},
       {"old_path", of("string", "For rename: the path now")},
       {"new_path", of("string", "For rename: the new path")}},
      {"command"});
  require_by(taken, "command",
             {{"view", {"path"}},
              {"create", {"path", "file_text"}},
              {"str_replace", {"path", "old_str", "new_str"}},
              {"insert", {"path", "insert_line", "insert_text"}},
              {"delete", {"path"}},
              {"rename", {"old_path", "new_path"}}});
  return Json{
      {"name", "memory"},
      {"description",
       "Keep files in the folder /memories between conversations. View the folder before you begin a task."},
      {"parameters", std::move(taken)}};
}

Json computer(std::string_view date, const Json& tool) {
  Json actions = Json::array({"key", "type", "mouse_move", "left_click", "left_click_drag", "right_click",
                              "middle_click", "double_click", "screenshot", "cursor_position"});
  Json properties;
  const bool newer = date >= "20250124";
  if (newer) {
    for (const char* action :
         {"left_mouse_down", "left_mouse_up", "triple_click", "scroll", "hold_key", "wait"}) {
      actions.push_back(action);
    }
  }
  const bool zoom = date >= "20251124" && tool.value("enable_zoom", Json()) == true;
  if (zoom) actions.push_back("zoom");
  properties["action"] = one_of(std::move(actions), "What to do");
  properties["coordinate"] = integers(2, "x and y in pixels, for mouse_move, clicks, drags and scroll");
  properties["text"] = of("string", "The text to type, or the keys to press, such as ctrl+s");
  if (newer) {
    properties["start_coordinate"] = integers(2, "Where a drag begins");
    properties["scroll_direction"] = one_of({"up", "down", "left", "right"}, "For scroll");
    properties["scroll_amount"] = of("integer", "For scroll: the number of steps");
    properties["duration"] = of("number", "For hold_key and wait: seconds");
  }
  if (zoom) properties["region"] = integers(4, "For zoom: x and y of two opposite corners");
  Json taken = parameters(std::move(properties), {"action"});
  Needs needs{{"key", {"text"}}, {"type", {"text"}}, {"mouse_move", {"coordinate"}}};
  if (newer) {
    needs.insert(needs.end(), {{"left_click_drag", {"start_coordinate", "coordinate"}},
                               {"scroll", {"coordinate", "scroll_direction", "scroll_amount"}},
                               {"hold_key", {"text", "duration"}},
                               {"wait", {"duration"}}});
  } else {
    needs.push_back({"left_click_drag", {"coordinate"}});
  }
  if (zoom) needs.push_back({"zoom", {"region"}});
  require_by(taken, "action", needs);
  const auto pixels = [&](const char* name) {
    const Json size = tool.value(name, Json());
    return size.is_number_integer() ? write_json(size) : std::string("an unknown number of");
  };
  return Json{
      {"name", "computer"},
      {"description",
       fmt::format("Use the mouse and the keyboard of a screen, and take screenshots. The screen is {} "
                   "pixels wide and {} pixels high.",
                   pixels("display_width_px"), pixels("display_height_px"))},
      {"parameters", std::move(taken)}};
}

}  // namespace

std::optional<Json> client_function(std::string_view type, const Json& tool) {
  const std::size_t under = type.rfind('_');
  if (under == std::string_view::npos) return std::nullopt;
  const std::string_view kind = type.substr(0, under), date = type.substr(under + 1);
  const bool dated =
      date.size() == 8 && std::ranges::all_of(date, [](unsigned char c) { return std::isdigit(c); });
  Json function;
  if (dated && kind == "bash") function = bash();
  if (dated && kind == "text_editor") function = text_editor(date);
  if (dated && kind == "memory") function = memory();
  if (dated && kind == "computer") function = computer(date, tool);
  if (function.is_null()) return std::nullopt;
  if (const Json name = tool.value("name", Json()); name.is_string() && name != "") function["name"] = name;
  if (tool.value("strict", Json()) == true) function["strict"] = true;
  return function;
}

}  // namespace ft::api
