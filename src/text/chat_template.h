// ChatTemplate: renders messages and tools to the prompt text by the model's own Jinja template, byte for
// byte equal to transformers' apply_chat_template. The loaded model owns it, and const methods may run on
// several threads at once. Loading compiles once; rendering is linear in the messages and bounded by
// TemplateLimits. Errors: a missing template, a malformed one (with its line), messages that the template
// refuses (raise_exception: kInvalid with its sentence), a limit. Source:
// transformers/utils/chat_template_utils.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

struct ft_text_template;

namespace ft {

/// Models and their templates are untrusted; exceeding a limit is an error that names it.
struct TemplateLimits {
  uint64_t fuel = 5'000'000;       // instructions per rendering; 1,000 messages need about 3e5
  uint64_t recursion_depth = 200;  // nested macro calls
  size_t template_bytes = size_t{1} << 20;
  size_t output_bytes = size_t{64} << 20;
  uint64_t work = uint64_t{1} << 30;       // bytes and items touched, plus 256 a byte of messages
  size_t memory_bytes = size_t{64} << 20;  // held at once, plus 192 bytes a byte of messages
};

/// A rendering beyond these is heavy work, plus 8 instructions and what TemplateLimits adds for each byte of
/// messages. The templates of public models stay below a quarter.
inline constexpr TemplateLimits kBriefRendering = {
    .fuel = 50'000, .work = uint64_t{4} << 20, .memory_bytes = size_t{8} << 20};

inline constexpr size_t kMaxMessagesBytes = size_t{64} << 20;
inline constexpr int kMaxJsonDepth = 100;  // of messages, tools and extra variables

struct RenderOptions {
  bool add_generation_prompt = true;
  std::optional<bool> enable_thinking;  // undefined in the template if not set
  std::string extra_json;               // JSON object of more variables (chat_template_kwargs), or empty
  int64_t now_s = 0;  // time for strftime_now: seconds since 1970-01-01, shifted to local time
};

class ChatTemplate {
 public:
  /// Tries chat_template.jinja, chat_template.json, then tokenizer_config.json; the latter also gives
  /// bos_token and the other special tokens.
  static Result<ChatTemplate> load(const std::string& model_dir, const TemplateLimits& limits = {});
  /// The same from the contents of tokenizer_config.json and chat_template.jinja, which may be empty; `name`
  /// begins messages instead of a folder.
  static Result<ChatTemplate> parse(std::string_view tokenizer_config, std::string_view jinja,
                                    const std::string& name, const TemplateLimits& limits = {});
  /// `special_tokens_json` is a JSON object of variables, such as {"eos_token": "..."}, or empty.
  static Result<ChatTemplate> from_source(std::string_view source, std::string_view special_tokens_json = {},
                                          const TemplateLimits& limits = {});

  /// `messages_json` is an array of OpenAI messages, `tools_json` an array of OpenAI tools or empty. Before
  /// rendering: role developer becomes system, leading system messages become one, content null becomes "",
  /// and a tool call's arguments are parsed if they are a string; for gpt-oss, what harmony_messages.h says.
  /// Throws HeavyWorkNeeded (base/heavy_work.h) on a thread that leaves kRender to others, once the rendering
  /// takes more than kBriefRendering allows.
  Result<std::string> render(std::string_view messages_json, std::string_view tools_json,
                             const RenderOptions& options = {}) const;

  /// The default template's source, from which the tool parser is chosen.
  const std::string& source() const { return source_; }

 private:
  struct Deleter {
    void operator()(ft_text_template* handle) const;
  };
  using Handle = std::unique_ptr<ft_text_template, Deleter>;

  explicit ChatTemplate(const TemplateLimits& limits) : limits_(limits) {}
  static Result<ChatTemplate> of_sources(std::string_view usual, std::string_view tool_use,
                                         std::string_view special_tokens_json, const TemplateLimits& limits);
  static Result<Handle> compile(std::string_view source, const TemplateLimits& limits);

  TemplateLimits limits_;
  std::string source_;
  std::string special_tokens_json_;  // a JSON object
  Handle default_;
  Handle tool_use_;  // the template named tool_use; usually absent
};

}  // namespace ft
