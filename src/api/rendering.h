// Renders a conversation as the prompt's text and its images, with fallbacks for templates that reject it. A
// system message in the middle keeps its position and becomes a user turn if the template rejects it. A final
// assistant message that the answer continues is appended after the generation prompt. A rejected
// conversation is rendered twice. Errors carry the template's sentence.
#pragma once

#include <string>
#include <string_view>

#include "api/generate_params.h"
#include "api/image_parts.h"
#include "text/chat_template.h"

namespace ft::api {

struct RenderedConversation {
  std::string text;
  std::vector<GivenImage> images;  // one for each placeholder, in order
};

/// `header`: the beginning of content in the model's format (ReasoningTags::header); usually empty.
Result<RenderedConversation> render_conversation(const ChatTemplate& chat_template,
                                                 const GenerateParams& call, const RenderOptions& options,
                                                 std::string_view header = {});

}  // namespace ft::api
