#include "cli/commands/prompt.h"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "api/image_parts.h"
#include "base/json.h"
#include "base/text_file.h"
#include "base/utf8.h"
#include "cli/commands/conversation.h"

namespace ft::cli {
namespace {

/// Removes the final newline that an editor or echo added.
std::string without_last_newline(std::string text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return text;
}

using Json = nlohmann::ordered_json;

/// A conversation for the template, and the pictures that it took.
struct Shown {
  std::string messages;
  Pictures pictures;
};

/// One part in the form that api/image_parts.h takes; null for text.
Result<Json> image_of(const Json& part, const std::string& path) {
  if (!part.is_object() || !part.contains("type") || !part["type"].is_string()) return Json();
  const auto type = part["type"].get<std::string>();
  if (type == "image_url" || type == "input_image") return api::read_openai_image(part, path);
  if (type != "image" || !part.contains("image") || !part["image"].is_string()) return Json();
  FT_ASSIGN(const std::string file,
            read_binary_file(part["image"].get<std::string>(), images::kMaxFileBytes));
  return api::image_part(file, path);
}

Result<Shown> show_images(const std::string& messages, const LoadedModel& loaded) {
  if (messages.find("image") == std::string::npos) return Shown{messages, {}};  // most conversations
  Json list = read_json<Json>(messages);
  for (std::size_t i = 0; list.is_array() && i < list.size(); ++i) {
    if (!list[i].contains("content") || !list[i]["content"].is_array()) continue;
    Json& content = list[i]["content"];
    for (std::size_t j = 0; j < content.size(); ++j) {
      FT_ASSIGN(Json image, image_of(content[j], fmt::format("message {}, part {}", i + 1, j + 1)));
      if (!image.is_null()) content[j] = std::move(image);
    }
  }
  FT_ASSIGN(const std::vector<api::GivenImage> given, api::take_images(list));
  FT_ASSIGN(Pictures pictures, api::load_images(image_input(loaded.model, loaded.max_pixels), given));
  return Shown{given.empty() ? messages : write_json(list), std::move(pictures)};
}

}  // namespace

Result<std::string> read_prompt_text(const PromptOptions& choice) {
  std::string text, origin = "--prompt";
  if (choice.text) {
    text = *choice.text;
  } else if (choice.file) {
    origin = *choice.file;
    FT_ASSIGN(text, read_text_file(*choice.file, kMaxPromptBytes));
    text = choice.raw ? text : without_last_newline(std::move(text));
  } else {
    if (::isatty(STDIN_FILENO) == 1) {
      return Error{Code::kInvalid,
                   "the prompt is missing; give --prompt TEXT, --prompt-file FILE or standard input"};
    }
    origin = "standard input";
    FT_ASSIGN(text, read_standard_input(kMaxPromptBytes));
    text = choice.raw ? text : without_last_newline(std::move(text));
  }
  if (!utf8_valid(text)) {
    return Error{Code::kInvalid,
                 fmt::format("{}: the text is not UTF-8; convert it first, for example with iconv", origin)};
  }
  return text;
}

Result<Prompt> raw_prompt(const std::string& text, const Tokenizer& tokenizer) {
  Prompt prompt;
  prompt.text = text;
  FT_ASSIGN(prompt.ids, tokenizer.encode(text, true));
  if (prompt.ids.empty())
    return Error{Code::kInvalid,
                 "the prompt is empty; give a text: foretoken run TEXT, or --prompt-file FILE"};
  return prompt;
}

Result<Prompt> render_prompt(const std::string& messages, const std::string& tools, std::optional<bool> think,
                             const LoadedModel& loaded) {
  if (!loaded.chat_template) {
    return Error{Code::kNotFound,
                 fmt::format("{}; or skip the template with --raw", loaded.chat_template_problem)};
  }
  RenderOptions options;
  options.enable_thinking = think;
  options.now_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  Prompt prompt;
  FT_ASSIGN(const Shown shown, show_images(messages, loaded));
  FT_ASSIGN(prompt.text, loaded.chat_template->render(shown.messages, tools, options));
  FT_ASSIGN(std::vector<std::int32_t> ids, loaded.tokenizer->encode(prompt.text, false));
  FT_ASSIGN(ImagePrompt placed,
            place_images(image_input(loaded.model, loaded.max_pixels), std::move(ids), shown.pictures));
  prompt.ids = std::move(placed.tokens), prompt.images = std::move(placed.images);
  prompt.tools = tools;
  prompt.templated = true;
  return prompt;
}

Result<Prompt> user_prompt(const std::string& text, const std::string& system, const std::string& tools,
                           std::optional<bool> think, const LoadedModel& loaded,
                           const std::vector<std::string>& images) {
  if (text.empty())
    return Error{Code::kInvalid,
                 "the prompt is empty; give a text: foretoken run TEXT, or --prompt-file FILE"};
  std::vector<Message> messages;
  if (!system.empty()) messages.push_back({"system", system, ""});
  messages.push_back({"user", text, ""});
  for (const std::string& file : images) {
    FT_ASSIGN(std::string uri, image_uri(file));
    messages.back().images.push_back(std::move(uri));
  }
  return render_prompt(messages_json(messages), tools, think, loaded);
}

std::vector<std::string> paragraphs(std::string text) {
  std::erase(text, '\r');
  std::vector<std::string> prompts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", at), text.size());
    const std::size_t first = text.find_first_not_of('\n', at);
    if (first < end) prompts.push_back(text.substr(first, end - first));
    at = end + 2;
  }
  for (std::string& prompt : prompts) {
    while (prompt.ends_with('\n')) prompt.pop_back();
  }
  return prompts;
}

Result<Prompt> make_prompt(const PromptOptions& choice, const LoadedModel& loaded) {
  if (choice.has_ids) {
    Prompt prompt;
    prompt.ids = choice.ids;
    return prompt;
  }
  std::string tools;
  if (!choice.tools.empty()) {
    FT_ASSIGN(const std::string text, read_text_file(choice.tools, kMaxPromptBytes));
    FT_ASSIGN(tools, checked_tools(text, choice.tools));
  }
  if (choice.messages) {
    FT_ASSIGN(const std::string text, read_text_file(*choice.messages, kMaxPromptBytes));
    FT_ASSIGN(std::string messages, checked_messages(text, *choice.messages));
    if (!choice.system.empty()) {
      const std::string system = messages_json({{"system", choice.system, ""}});
      messages = system.substr(0, system.size() - 1) + "," + messages.substr(1);
    }
    return render_prompt(messages, tools, choice.think, loaded);
  }
  FT_ASSIGN(const std::string text, read_prompt_text(choice));
  if (choice.raw) return raw_prompt(text, *loaded.tokenizer);
  return user_prompt(text, choice.system, tools, choice.think, loaded, choice.images);
}

}  // namespace ft::cli
