// A conversation in progress: messages, settings, totals, and what its /commands do to them. No terminal and
// no model here, so that tests can drive it. Owner: chat.cpp. Thread: one. Cost: none. Errors: a command that
// is wrong changes nothing and answers with a sentence.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/conversation.h"
#include "cli/flag.h"
#include "cli/options.h"
#include "cli/reports.h"

namespace ft::cli {

struct ChatSession {
  std::string system;
  std::vector<Message> messages;  // without the system message
  std::optional<bool> think;
  SamplingChoice sampling;
  AnswerChoice answer;
  SpeculationChoice speculation;

  // Totals for /stats.
  Speed speed;
  SpeculationReport totals;
  int answers = 0;

  /// JSON for the template.
  std::string rendered_messages() const;
  void add_answer(const GatheredAnswer& answer);
};

struct CommandOutcome {
  std::string words;  // to print; begins with "foretoken: " if it failed
  bool quit = false;
  bool failed = false;
};

/// `line` begins with '/'.
CommandOutcome run_chat_command(ChatSession& session, const std::string& line);

}  // namespace ft::cli
