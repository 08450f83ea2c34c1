#include "text/chat_format/granite.h"

#include "text/chat_format/listed_calls_parser.h"

namespace ft {
namespace {

constexpr std::string_view kGraniteCall = "<|tool_call|>";
constexpr std::string_view kGraniteOpenings[] = {kGraniteCall, "<tool_call>"};
constexpr std::string_view kGraniteSpecialTokens[] = {kGraniteCall};
constexpr CallMarks kGraniteMarks = {kGraniteOpenings, {}, {}};

std::unique_ptr<ToolParser> granite_make_parser(ToolSchemas schemas) {
  return std::make_unique<ListedCallsParser>(std::move(schemas), kGraniteMarks);
}

constexpr ToolCallSyntax granite_calls() {
  ToolCallSyntax form;
  form.begin = kGraniteCall;
  form.openings = kGraniteOpenings;
  form.parser = granite_make_parser;
  form.body = listed_call_body, form.text_body = listed_text_body;
  form.between = ", ";
  form.list_open = "[", form.list_close = "]";
  return form;
}

}  // namespace

constinit const ChatFormat kGraniteFormat = {"granite", {}, granite_calls(), {}, kGraniteSpecialTokens};

bool is_granite_template(std::string_view source) {
  return source.find(kGraniteCall) != std::string_view::npos;
}

}  // namespace ft
