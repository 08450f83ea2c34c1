#include "cli/commands/matrix_prompts.h"

#include <algorithm>
#include <fmt/format.h>

#include "api/base64.h"
#include "cli/commands/conversation.h"
#include "cli/commands/prompt.h"
#include "lab/bench_prompts.h"
#include "sched/image_prompt.h"
#include "verify/matrix_pictures.h"

namespace ft::cli {
namespace {

/// Prompts in addition to bench's: short, repetitive, mixed scripts, or unlike any training text.
constexpr BuiltInPrompt kMore[] = {
    {"raw: one letter", "a", "", true},
    {"raw: one newline", "\n", "", true},
    {"raw: counting", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22", "", true},
    {"raw: one word often", "yes yes yes yes yes yes yes yes yes yes yes yes yes yes yes", "", true},
    {"raw: json", "{\"users\": [{\"id\": 1, \"name\": \"Ada\"}, {\"id\": 2, \"name\":", "", true},
    {"raw: table", "| name | size |\n| --- | --- |\n| one | 1 |\n| two | 2 |\n|", "", true},
    {"raw: c++", "#include <vector>\n\nint sum(const std::vector<int>& values) {\n  int total = 0;\n", "",
     true},
    {"raw: shell", "#!/bin/sh\nset -eu\nfor file in *.txt; do\n  echo \"$file\"\n", "", true},
    {"raw: scripts", "\u00e9\u00e8\u00ea \u4f60\u597d \u041f\u0440\u0438\u0432\u0435\u0442 \U0001F600 ", "",
     true},
    {"raw: no text", "xq7# zz@! 0x1F ~~ %%% qwrtpsd 99/// :: ,,, ((( ]]", "", true},
    {"chat: list", "List ten fruits, one a line, with a number before each.", "", false},
    {"chat: one word", "Hello", "", false},
    {"chat: json", "Give me a JSON object with the keys name, age and city.", "", false},
    {"chat: long story", "Tell a long story about a lighthouse, a storm and a letter that came too late.", "",
     false},
};

constexpr std::string_view kTools =
    R"([{"type": "function", "function": {"name": "look_up", "description": "Looks a word up.",
         "parameters": {"type": "object", "properties": {"word": {"type": "string"}}}}}])";

bool shows_pictures(std::size_t index, const LoadedModel& loaded) {
  return index % 3 == 1 && loaded.model.vision.has_value();
}

std::string picture_uri(std::size_t number) {
  return "data:image/bmp;base64," + api::encode_base64(drawn_picture(static_cast<int>(number)));
}

/// A conversation with pictures, of three alternating kinds.
Result<MatrixPrompt> picture_prompt(std::size_t index, const LoadedModel& loaded) {
  const std::size_t number = index / 3;
  Message asked{"user", "What does the picture show?", "", {picture_uri(number)}};
  std::string name = "chat: a picture", tools;
  std::vector<Message> messages;
  switch (number % 3) {
    case 1:
      name = "chat: two pictures";
      asked.images.push_back(picture_uri(number + 1));
      asked.content = "What differs between the two?";
      break;
    case 2:
      name = "chat: an earlier picture, tools";
      tools = kTools;
      messages = {asked, {"assistant", "A disc and a bar.", ""}};
      asked = {"user", "Look up the colour of the disc.", ""};
      break;
    default:
      break;
  }
  messages.push_back(std::move(asked));
  FT_ASSIGN(Prompt prompt, render_prompt(messages_json(messages), tools, std::nullopt, loaded));
  return MatrixPrompt{std::move(name), std::move(prompt.ids), std::move(prompt.images)};
}

Result<std::vector<MatrixPrompt>> text_prompts(int count, const LoadedModel& loaded) {
  std::vector<BuiltInPrompt> all(built_in_prompts().begin(), built_in_prompts().end());
  all.insert(all.end(), std::begin(kMore), std::end(kMore));
  std::vector<MatrixPrompt> prompts;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    if (loaded.chat_template && shows_pictures(i, loaded)) {
      Result<MatrixPrompt> pictured = picture_prompt(i, loaded);
      if (!pictured.ok()) return model_error(pictured.error());
      prompts.push_back(std::move(*pictured));
      continue;
    }
    // Further prompts: the same texts from another offset, so that every prompt differs.
    const BuiltInPrompt& from = all[i % all.size()];
    const std::string text = std::string(i / all.size(), '\n') + std::string(from.text);
    Result<Prompt> prompt = from.raw || !loaded.chat_template
                                ? raw_prompt(text, *loaded.tokenizer)
                                : user_prompt(text, "", std::string(from.tools), std::nullopt, loaded);
    if (!prompt.ok()) return model_error(prompt.error());
    prompts.push_back({std::string(from.name), std::move(prompt->ids)});
  }
  return prompts;
}

/// Puts a picture between the ids of a prompt.
Status show_picture(MatrixPrompt& prompt, std::size_t index, const LoadedModel& loaded) {
  const ImageInput input = image_input(loaded.model, loaded.max_pixels);
  std::replace(prompt.ids.begin(), prompt.ids.end(), input.image_token, 1);
  prompt.ids.insert(prompt.ids.begin() + static_cast<std::ptrdiff_t>(prompt.ids.size() / 2),
                    input.image_token);
  FT_ASSIGN(const auto picture, load_image(input, drawn_picture(static_cast<int>(index / 3 + 1)), false));
  FT_ASSIGN(ImagePrompt placed, place_images(input, std::move(prompt.ids), {picture}));
  prompt = {prompt.name + ", a picture", std::move(placed.tokens), std::move(placed.images)};
  return {};
}

/// Each has 1 to 64 ids, and perhaps a picture.
Result<std::vector<MatrixPrompt>> id_prompts(int count, const LoadedModel& loaded) {
  const auto vocabulary = static_cast<std::uint32_t>(loaded.model.facts.vocabulary);
  std::vector<MatrixPrompt> prompts;
  std::uint64_t state = 0x9E3779B97F4A7C15;  // a linear congruence (Knuth's MMIX), high bits
  const auto below = [&state](std::uint32_t limit) {
    state = state * 6364136223846793005 + 1442695040888963407;
    return static_cast<std::int32_t>((state >> 33) % limit);
  };
  for (int i = 0; i < count; ++i) {
    MatrixPrompt prompt{fmt::format("ids {}", i + 1), {}};
    const int length = 1 + below(64);
    for (int at = 0; at < length; ++at) prompt.ids.push_back(below(vocabulary));
    if (const auto index = static_cast<std::size_t>(i); shows_pictures(index, loaded))
      FT_TRY(show_picture(prompt, index, loaded));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace

Result<std::vector<MatrixPrompt>> matrix_prompts(int count, const LoadedModel& loaded) {
  if (loaded.tokenizer) return text_prompts(count, loaded);
  return id_prompts(count, loaded);
}

}  // namespace ft::cli
