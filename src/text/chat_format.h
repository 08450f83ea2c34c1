// ChatFormat: how a family of models marks reasoning, writes tool calls and fills a middle. It is chosen
// once, at load, from the family and the chat template. A format has a file in text/chat_format/; no other
// code knows its tags. Immutable; any thread.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/text_format.h"
#include "text/tool_parser.h"
#include "text/tool_schema.h"

namespace ft {

class GrammarTags;
class SchemaGraph;

/// Empty tags: the model does not reason.
struct ReasoningTags {
  std::string_view open, close;
  std::string_view gap;  // between `close` and the content
  /// The start of content that no reasoning precedes; a prompt may end with it.
  std::string_view header = {};
  /// Around the content after a reasoning; not shown. The model may leave them out.
  std::string_view content_open = {}, content_close = {};
};

/// A function that the model may call. The references are of the request's tools.
struct ToolFunction {
  const std::string& name;
  const SchemaGraph& parameters;
  const GrammarTags& tags;  // of the format, in the model's vocabulary
};

/// The same with one parameter, kTextParameter, whose text follows `format`.
struct TextFunction {
  const std::string& name;
  const TextFormat& format;
  const GrammarTags& tags;
};

/// The result of writing a function's rules.
struct CallBody {
  std::string expression;
  std::set<std::string> unenforced;  // keywords and parts of the schema that an answer may break
};

struct ToolCallSyntax {
  std::string_view begin, end;
  /// A call inside an unclosed reasoning ends it if this follows `begin` and white space.
  std::string_view inner;
  /// Text before a call that follows a grammar contains none of these.
  std::span<const std::string_view> openings;
  std::unique_ptr<ToolParser> (*parser)(ToolSchemas) = nullptr;  // null: calls are not parsed

  /// The Lark expression between `begin` and `end`. Rules that it needs are appended to `lark`, under names
  /// that begin with `prefix`. Null: calls cannot be enforced.
  Result<CallBody> (*body)(const ToolFunction&, const std::string& prefix, std::string& lark) = nullptr;
  /// Lark rules that all calls share.
  std::string (*rules)(const GrammarTags& tags) = nullptr;
  std::string_view between = "\n";  // two calls
  /// As `body`, for a tool whose parameter is a text. Null: as `body`.
  Result<std::string> (*text_body)(const TextFunction& function, const std::string& prefix,
                                   std::string& lark) = nullptr;
  /// A call is the whole answer: no text comes before it, and no other call after it. `openings` are then the
  /// possible beginnings of such an answer.
  bool whole_answer = false;
  /// All calls of an answer are one list after one `begin`. Empty: each call has `begin` and `end`.
  std::string_view list_open = {}, list_close = {};
};

struct ChatFormat {
  std::string_view name;
  ReasoningTags reasoning;
  ToolCallSyntax calls;
  std::array<std::string_view, 3> middle;  // before prefix, suffix and the middle; empty: not trained for it
  /// Special tokens that the reasoning's and the calls' parsers read, so they are part of an answer's text.
  std::span<const std::string_view> special_tokens = {};
  /// An answer is messages with headers. The parser of calls reads all of it, its reasoning too, and a
  /// grammar of calls includes the header of the message after the reasoning; other grammars follow `gap`.
  bool channels = false;
};

/// Without reasoning, calls and fill-in-the-middle.
extern const ChatFormat kPlainFormat;

/// The first format of `names` whose marks are in the template, which is empty without a chat template. The
/// last name accepts any template. The table of names is in chat_format.cpp; no names: kPlainFormat.
const ChatFormat& choose_chat_format(std::span<const std::string_view> names,
                                     std::string_view template_source);
/// Null for a name that no format has.
const ChatFormat* find_chat_format(std::string_view name);

}  // namespace ft
