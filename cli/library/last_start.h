// What the person chose at the last `start`, in the state folder.
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

Status remember_start(const LastStart& choice);
/// Nothing if there is none, or it is damaged.
std::optional<LastStart> last_start();

}  // namespace ft::cli
