// A conversation in progress: messages, settings, totals, and the effect of its /commands. It uses no
// terminal and no model, so that tests can drive it. A wrong command changes nothing and returns a sentence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/args/flag.h"
#include "cli/args/options.h"
#include "cli/commands/conversation.h"
#include "cli/terminal/reports.h"

namespace ft::cli {

struct ChatSession {
  std::string system;
  std::vector<Message> messages;    // without the system message
  std::vector<std::string> images;  // data URIs of /image, for the next message
  std::optional<bool> think;
  RequestOptions request;
  SpeculationOptions speculation;

  // Totals for /stats.
  Speed speed;
  SpeculationReport totals;
  int answers = 0;

  /// The messages as JSON for the template.
  std::string rendered_messages() const;
  void add_answer(const GatheredAnswer& answer);
};

struct CommandOutcome {
  std::string words;  // text to print; starts with "foretoken: " on failure
  bool quit = false;
  bool failed = false;
};

/// `line` starts with '/'.
CommandOutcome run_chat_command(ChatSession& session, const std::string& line);

}  // namespace ft::cli
