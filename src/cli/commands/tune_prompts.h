// What `tune` lets the model write about: the user's prompts or texts, or built-in templates and user turns
// that the model makes up itself. A prompt follows from its number alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/commands/loading.h"
#include "cli/commands/prompt.h"
#include "tune/streams.h"

namespace ft::cli {

struct TuneLengths {
  int prompt_tokens = 320;  // at most
  int answer_tokens = 384;
  int all() const { return prompt_tokens + answer_tokens; }
};

class TunePrompts {
 public:
  /// `path`: a file of prompts with an empty line between two, or a folder of texts that the model continues;
  /// empty: the built-in ones. `loaded` must outlive it.
  static Result<std::unique_ptr<TunePrompts>> make(const std::string& path, const LoadedModel& loaded,
                                                   const TuneLengths& lengths);

  /// Identifies the prompts and how they are asked, because other prompts give other data.
  const std::string& identity() const { return identity_; }
  tune::NextAsk next() const;
  /// Prompts that the training never sees.
  Result<std::vector<Prompt>> held_out(std::size_t count) const;

 private:
  TunePrompts(const LoadedModel& loaded, const TuneLengths& lengths) : loaded_(loaded), lengths_(lengths) {}
  Status read(const std::string& path);
  void find_turn_prefix();
  Result<std::optional<tune::Ask>> ask(std::int64_t index, int stage, const tune::Answered& last) const;
  Result<std::vector<std::int32_t>> ids_of(const std::string& text) const;
  std::string text_of(std::int64_t index) const;
  std::optional<std::string> own_turn(const tune::Answered& last) const;

  const LoadedModel& loaded_;
  TuneLengths lengths_;
  std::string identity_;
  std::vector<std::string> given_, held_out_;  // of the user; none: built-in ones
  bool continues_ = false;                     // they are texts to continue, without the template
  std::vector<std::int32_t> turn_prefix_;      // what comes before a user's turn; empty: unknown
};

}  // namespace ft::cli
