// The report of `doctor --bundle` for an issue. It is built from a list of shareable facts, not by removing
// secrets: versions, machine, findings, the model's configuration and sizes, names of settings and variables.
// Every text then passes scrubbed() as a second protection.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lab/machine.h"

namespace ft::cli {

/// Text that a report must not contain: home, user, host.
struct Private {
  std::string home, user, host;
};
Private private_words();

/// `text` without them, and without tokens, keys, e-mail addresses, credentials and queries of URLs.
std::string scrubbed(std::string text, const Private& words);

/// One JSON object and a newline.
std::string bundle_text(const Machine& machine, const std::vector<Finding>& findings,
                        const std::string& backend, const std::string& model);

}  // namespace ft::cli
