// Content blocks of Anthropic's messages as texts. Internal to api/anthropic. Errors name the block.
#pragma once

#include <string>
#include <string_view>

#include "api/fields.h"
#include "api/notes.h"

namespace ft::api {

inline constexpr std::size_t kMaxBlocks = 16'384;  // in one content

/// Appends on a new line.
void add_text(std::string& all, std::string_view text);
Result<std::string> needed_text(const Fields& fields, std::string_view name);
/// The blocks of a content; each one is checked to be an object with a type.
Result<const Json*> block_list(const Json& content, const std::string& path);
/// True for a block that only the service which wrote it can read.
bool is_foreign_block(std::string_view type);
Error no_text(const std::string& path, std::string_view what);
Error unknown_block(const std::string& path, const std::string& type, std::string_view where);

/// The text of a block in a user's turn, a system prompt, or a tool result. A foreign block has none.
Result<std::string> text_of(const Json& block, const std::string& path, Notes& notes);
/// The texts of a content, each on its own line.
Result<std::string> texts_of(const Json& content, const std::string& path, Notes& notes);

}  // namespace ft::api
