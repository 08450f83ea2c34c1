// A call's conversation as the prompt's text, also where a template has no words for it: a system message in
// the middle stays in its place, as a user's turn if the template takes none there, and a last message of the
// assistant's that the answer continues stands after the generation prompt. Pure. Thread: any. Cost: a
// rendering, two where the template refuses the first. Errors: the template's sentence.
#pragma once

#include <string>

#include "api/generate_params.h"
#include "text/chat_template.h"

namespace ft::api {

Result<std::string> render_conversation(const ChatTemplate& chat_template, const GenerateParams& call,
                                        const RenderOptions& options);

}  // namespace ft::api
