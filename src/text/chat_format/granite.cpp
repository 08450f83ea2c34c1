#include "text/chat_format/granite.h"

#include "text/chat_format/listed_calls_parser.h"

namespace ft {
namespace {

constexpr std::string_view kCall = "<|tool_call|>";
constexpr std::string_view kOpenings[] = {kCall, "<tool_call>"};
constexpr std::string_view kSpecialTokens[] = {kCall};
constexpr CallMarks kMarks = {kOpenings, {}, {}};

std::unique_ptr<ToolParser> make_parser(ToolSchemas schemas) {
  return std::make_unique<ListedCallsParser>(std::move(schemas), kMarks);
}

constexpr ToolCallSyntax calls() {
  ToolCallSyntax form;
  form.begin = kCall;
  form.openings = kOpenings;
  form.parser = make_parser;
  form.body = listed_call_body, form.text_body = listed_text_body;
  form.between = ", ";
  form.list_open = "[", form.list_close = "]";
  return form;
}

}  // namespace

constinit const ChatFormat kGraniteFormat = {"granite", {}, calls(), {}, kSpecialTokens};

bool is_granite_template(std::string_view source) { return source.find(kCall) != std::string_view::npos; }

}  // namespace ft
