#include "cli/commands/chat_session.h"

#include <fmt/format.h>

#include "base/text_file.h"
#include "cli/args/option_flags.h"
#include "speculation/report_figures.h"

namespace ft::cli {
namespace {

constexpr const char* kChatHelp =
    "/help               show this help\n"
    "/clear              forget the conversation\n"
    "/system [TEXT]      set, show or (with -) remove the system message\n"
    "/think on|off       turn reasoning on or off\n"
    "/image FILE         attach an image to the next message (repeatable); - removes them\n"
    "/set [KEY VALUE]    set a flag of `foretoken run`, such as /set temperature 0.2; alone: list the names\n"
    "/stats              show speed and drafts so far\n"
    "/save FILE          write the conversation as JSON\n"
    "/load FILE          continue a saved conversation\n"
    "/quit               leave (or Ctrl-D)\n"
    "A backslash at the end of a line joins the next one. Ctrl-C stops an answer.\n";

CommandOutcome failed(const std::string& words) {
  return {fmt::format("foretoken: {}\n", words), false, true};
}

FlagSet settable(ChatSession& session) {
  FlagSet flags;
  add_sampling_flags(flags, session.request);
  add_answer_flags(flags, session.request);
  add_speculation_flags(flags, session.request, session.speculation);
  return flags;
}

CommandOutcome set_flag(ChatSession& session, const std::string& rest) {
  ChatSession changed = session;
  const FlagSet flags = settable(changed);
  const std::size_t space = rest.find_first_of(" \t=");
  const std::string key = rest.substr(0, space);
  std::vector<std::string> names;
  for (const Flag& flag : flags.flags()) names.push_back(flag.name);
  if (key.empty()) {
    std::string words;
    for (const Flag& flag : flags.flags()) words += fmt::format("{:20} {}\n", flag.name, flag.help);
    return {words};
  }
  const Flag* flag = flags.find(key);
  if (flag == nullptr)
    return failed(fmt::format("/set: unknown setting '{}'; /set alone lists the settings", key));
  const std::size_t begin = space == std::string::npos ? space : rest.find_first_not_of(" \t=", space);
  if (begin == std::string::npos)
    return failed(fmt::format("/set {} needs a value: {}", key, flag->value_name));
  // A list replaces the old one, as a flag does.
  if (key == "stop") changed.request.stops.clear();
  if (key == "logit-bias") changed.request.bias.clear();
  if (const Status status = flag->set(rest.substr(begin)); !status.ok()) {
    return failed(fmt::format("{}: {}", key, status.error().message));
  }
  session.request = changed.request, session.speculation = changed.speculation;
  return {fmt::format("{} is {}\n", key, rest.substr(begin))};
}

std::string stats(const ChatSession& session) {
  if (session.answers == 0) return "no answers yet\n";
  std::string words =
      fmt::format("{} {}, {} tokens, {:.1f} tokens/s; drafted {}, accepted {}, {:.2f} tokens per round\n",
                  session.answers, session.answers == 1 ? "answer" : "answers", session.speed.tokens,
                  session.speed.tokens_per_second(), session.totals.drafted, session.totals.accepted,
                  tokens_per_round(session.totals));
  const std::vector<double> shares = acceptance_by_position(session.totals);
  if (!shares.empty()) words += "accepted by position:";
  for (const double share : shares) words += fmt::format(" {:.2f}", share);
  return shares.empty() ? words : words + "\n";
}

CommandOutcome load_file(ChatSession& session, const std::string& file) {
  Result<std::string> text = read_text_file(file, kMaxPromptBytes);
  if (!text.ok()) return failed(text.error().message);
  Result<std::vector<Message>> messages = plain_messages(*text, file);
  if (!messages.ok()) return failed(messages.error().message);
  session.system.clear();
  if (messages->front().role == "system") {
    session.system = messages->front().content;
    messages->erase(messages->begin());
  }
  session.messages = std::move(*messages);
  return {fmt::format("{} messages loaded\n", session.messages.size())};
}

CommandOutcome attach(ChatSession& session, const std::string& file) {
  if (file.empty()) return failed("/image needs a file name");
  if (file == "-") {
    session.images.clear();
    return {"no pictures\n"};
  }
  Result<std::string> uri = image_uri(file);
  if (!uri.ok()) return failed(uri.error().message);
  session.images.push_back(std::move(*uri));
  return {fmt::format("{} is attached to the next message\n", file)};
}

CommandOutcome save_file(const ChatSession& session, const std::string& file) {
  const Status status = write_text_file(file, session.rendered_messages() + "\n");
  if (!status.ok()) return failed(status.error().message);
  return {fmt::format("{} messages saved\n", session.messages.size())};
}

}  // namespace

std::string ChatSession::rendered_messages() const {
  std::vector<Message> all;
  if (!system.empty()) all.push_back({"system", system, ""});
  all.insert(all.end(), messages.begin(), messages.end());
  return messages_json(all, true);
}

void ChatSession::add_answer(const GatheredAnswer& gathered) {
  std::string content = gathered.text;
  messages.push_back({"assistant", std::move(content), gathered.reasoning});
  speed.add(gathered.report.completion_tokens, gathered.report.decode_ms);
  add(totals, gathered.report.speculation);
  ++answers;
}

CommandOutcome run_chat_command(ChatSession& session, const std::string& line) {
  const std::size_t space = line.find_first_of(" \t");
  const std::string word = line.substr(1, space == std::string::npos ? space : space - 1);
  const std::size_t begin = space == std::string::npos ? space : line.find_first_not_of(" \t", space);
  const std::string rest =
      begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
  if (word == "help" || word == "?") return {kChatHelp};
  if (word == "quit" || word == "exit") return {"", true};
  if (word == "clear") {
    session.messages.clear();
    return {"the conversation is cleared\n"};
  }
  if (word == "system") {
    if (rest == "-") session.system.clear();
    if (!rest.empty() && rest != "-") session.system = rest;
    return {session.system.empty() ? "no system message\n" : fmt::format("system: {}\n", session.system)};
  }
  if (word == "think") {
    if (const Status status = reads_on_off(session.think)(rest); !status.ok()) {
      return failed(fmt::format("/think: {}", status.error().message));
    }
    return {fmt::format("thinking is {}\n", *session.think ? "on" : "off")};
  }
  if (word == "image") return attach(session, rest);
  if (word == "set") return set_flag(session, rest);
  if (word == "stats") return {stats(session)};
  if (word == "save" || word == "load") {
    if (rest.empty()) return failed(fmt::format("/{} needs a file name", word));
    return word == "save" ? save_file(session, rest) : load_file(session, rest);
  }
  return failed(fmt::format("unknown command /{}; /help lists the commands", word));
}

}  // namespace ft::cli
