#include "cli/library/state_folder.h"

#include <cstdlib>

namespace ft::cli {

std::string state_folder() {
  const char* state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && *state == '/') return std::string(state) + "/foretoken";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.local/state/foretoken" : std::string();
}

}  // namespace ft::cli
