// The choice of the last `start`, in the state folder. A choice whose model does not load does not replace an
// earlier one.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace ft::cli {

struct LastStart {
  std::string model;   // as --model takes it; empty: the shipped model
  std::string where;   // "chat", "page" or "serve"
  std::string client;  // of "serve"; empty: none named
  bool max = false;    // of "page" and "serve": Max mode
};

inline constexpr const char* kKeptStart = "saved; run `foretoken start` to begin the same again";

/// Saves the choice for the command that this process becomes. It is kept once the model has loaded.
Status begin_start(const LastStart& choice);
/// Call it after a load: if this process was `start` before, its choice becomes the last one. True if it
/// did.
bool keep_start();
/// Nothing if there is none, or it is damaged.
std::optional<LastStart> last_start();

}  // namespace ft::cli
