// The folder of foretoken's state on this machine: history, verified models, the last choice of `start`.
#pragma once

#include <string>

namespace ft::cli {

/// $XDG_STATE_HOME/foretoken, else ~/.local/state/foretoken; empty without a home.
std::string state_folder();

}  // namespace ft::cli
