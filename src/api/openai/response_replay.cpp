#include "api/openai/response_replay.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "api/fields.h"
#include "api/openai/client_calls.h"
#include "base/json.h"

namespace ft::api {
namespace {

/// A number of the query, or `other` if it is absent.
Result<std::int64_t> number(const std::string& text, const char* name, std::int64_t low, std::int64_t high,
                            std::int64_t other) {
  if (text.empty()) return other;
  std::int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem == std::errc() && end == text.data() + text.size() && value >= low && value <= high)
    return value;
  return wrong(name, fmt::format("must be an integer between {} and {}, found \"{}\"", low, high, text));
}

/// Writes the events of one response as ResponsesWriter does.
class Replay {
 public:
  Replay(const Json& response, const Json& deltas, std::int64_t after)
      : response_(response), deltas_(deltas), after_(after) {}

  std::string events() {
    Json begun = response_;
    begun["status"] = "in_progress", begun["output"] = Json::array(), begun["usage"] = nullptr;
    begun["incomplete_details"] = nullptr;
    begun.erase("speculation"), begun.erase("timings");
    frame("response.created", Json{{"response", begun}});
    frame("response.in_progress", Json{{"response", begun}});
    const Json& output = response_["output"];
    for (std::size_t i = 0; i < output.size(); ++i) {
      item(output[i], i, i < deltas_.size() ? deltas_[i] : Json::array());
    }
    frame(fmt::format("response.{}", response_["status"].get<std::string>()), Json{{"response", response_}});
    return std::move(out_);
  }

 private:
  void frame(const std::string& type, const Json& data) {
    const std::int64_t number = events_++;
    if (number <= after_) return;
    Json json{{"type", type}, {"sequence_number", number}};
    json.update(data);
    out_ += fmt::format("event: {}\ndata: {}\n\n", type, dump(json));
  }

  /// The names of an item's events, and its text.
  struct Form {
    std::string delta, member;    // "response.output_text", and the member of its done event
    const char* place = nullptr;  // "content_index" or "summary_index"; null: no parts
    std::string part_added = {}, part_done = {};
    Json part = {};
  };

  static Form form_of(const Json& item) {
    const Json& type = item["type"];
    if (type == "function_call") return {.delta = "response.function_call_arguments", .member = "arguments"};
    if (type == "custom_tool_call") return {.delta = "response.custom_tool_call_input", .member = "input"};
    const bool summary = type == "reasoning" && !item["summary"].empty();
    const Json& parts = summary ? item["summary"] : item["content"];
    const std::string part = summary ? "response.reasoning_summary_part" : "response.content_part";
    return {.delta = summary               ? "response.reasoning_summary_text"
                     : type == "reasoning" ? "response.reasoning_text"
                                           : "response.output_text",
            .member = "text",
            .place = summary ? "summary_index" : "content_index",
            .part_added = part + ".added",
            .part_done = part + ".done",
            .part = parts.empty() ? Json{{"text", ""}} : parts[0]};
  }

  static Json emptied(Json item) {
    item["status"] = "in_progress";
    for (const char* list : {"content", "summary"}) {
      if (item.contains(list)) item[list] = Json::array();
    }
    for (const char* text : {"arguments", "input"}) {
      if (item.contains(text)) item[text] = "";
    }
    if (item.contains("encrypted_content")) item["encrypted_content"] = nullptr;
    return item;
  }

  void item(const Json& item, std::size_t index, const Json& sizes) {
    if (client_tool_of_call(item["type"].get<std::string>()) != nullptr) {
      Json begun = item;
      begun["status"] = "in_progress";
      frame("response.output_item.added", Json{{"output_index", index}, {"item", std::move(begun)}});
      frame("response.output_item.done", Json{{"output_index", index}, {"item", item}});
      return;
    }
    const Form form = form_of(item);
    const std::string text =
        form.place == nullptr ? item[form.member].get<std::string>() : form.part["text"].get<std::string>();
    const bool logprobs = form.delta == "response.output_text";
    Json place{{"item_id", item["id"]}, {"output_index", index}};
    frame("response.output_item.added", Json{{"output_index", index}, {"item", emptied(item)}});
    if (form.place != nullptr) {
      place[form.place] = 0;
      Json data = place;
      data["part"] = form.part;
      data["part"]["text"] = "";
      if (logprobs) data["part"]["logprobs"] = Json::array();
      frame(form.part_added, data);
    }
    for (std::size_t at = 0, i = 0; i < sizes.size(); ++i) {
      const auto size = sizes[i].get<std::size_t>();
      Json data = place;
      data["delta"] = text.substr(std::min(at, text.size()), size);
      if (logprobs) data["logprobs"] = Json::array();
      frame(form.delta + ".delta", data);
      at += size;
    }
    const bool cut_call = form.place == nullptr && item["status"] == "incomplete";
    Json done = place;
    done[form.member] = text;
    if (logprobs) done["logprobs"] = form.part.value("logprobs", Json::array());
    if (!cut_call) frame(form.delta + ".done", done);
    if (form.place != nullptr) {
      Json data = place;
      data["part"] = form.part;
      frame(form.part_done, data);
    }
    frame("response.output_item.done", Json{{"output_index", index}, {"item", item}});
  }

  const Json& response_;
  const Json& deltas_;
  const std::int64_t after_;
  std::int64_t events_ = 0;
  std::string out_;
};

/// An item with an id and, for a message, a list of parts.
Json listed(Json item, std::size_t index, const std::string& response_id) {
  if (!item.contains("type")) item["type"] = "message";
  if (item["type"] == "message" && item.contains("content") && item["content"].is_string()) {
    const bool answer = item.value("role", Json()) == "assistant";
    Json part{{"type", answer ? "output_text" : "input_text"}, {"text", item["content"]}};
    if (answer) part["annotations"] = Json::array();
    item["content"] = Json::array({std::move(part)});
  }
  if (!item.contains("id") || !item["id"].is_string()) {
    item["id"] =
        fmt::format("msg_{}_{}", response_id.substr(std::min<std::size_t>(5, response_id.size())), index);
  }
  return item;
}

}  // namespace

Result<HttpResponse> replay_reply(const StoredResponse& stored, const StoredQuery& query) {
  FT_ASSIGN(const std::int64_t after, number(query.starting_after, "starting_after", 0, 1LL << 53, -1));
  const Json response = read_json<Json>(stored.body), deltas = read_json<Json>(stored.deltas);
  HttpResponse reply;
  reply.type = "text/event-stream; charset=utf-8";
  reply.body = Replay(response, deltas, after).events();
  return reply;
}

Result<HttpResponse> input_items_reply(const StoredResponse& stored, const StoredQuery& query) {
  FT_ASSIGN(const std::int64_t limit, number(query.limit, "limit", 1, kMaxListedItems, 20));
  if (!query.order.empty() && query.order != "asc" && query.order != "desc") {
    return wrong("order", fmt::format("must be asc or desc, found \"{}\"", query.order));
  }
  const Json response = read_json<Json>(stored.body), history = read_json<Json>(stored.history);
  const auto id = response["id"].get<std::string>();
  std::vector<Json> items;
  for (std::size_t i = 0; i < std::min(stored.inputs, history.size()); ++i) {
    items.push_back(listed(history[i], i, id));
  }
  if (query.order != "asc") std::ranges::reverse(items);
  std::size_t from = 0;
  if (!query.after.empty()) {
    const auto found =
        std::ranges::find_if(items, [&](const Json& item) { return item["id"] == query.after; });
    if (found == items.end())
      return wrong("after", fmt::format("no input item has the id \"{}\"", query.after));
    from = static_cast<std::size_t>(found - items.begin()) + 1;
  }
  const std::size_t end = std::min(items.size(), from + static_cast<std::size_t>(limit));
  Json data = Json::array();
  for (std::size_t i = from; i < end; ++i) data.push_back(std::move(items[i]));
  HttpResponse reply;
  reply.body = dump(Json{{"object", "list"},
                         {"data", data},
                         {"first_id", data.empty() ? Json() : data.front()["id"]},
                         {"last_id", data.empty() ? Json() : data.back()["id"]},
                         {"has_more", end < items.size()}});
  return reply;
}

}  // namespace ft::api
