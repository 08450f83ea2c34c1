// The checks of `doctor` beyond the machine and the loading of the model: the way to the hub, and with --deep
// the hashes of the model's files and an answer decoded plainly and with drafts.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/options.h"
#include "cli/terminal/terminal.h"
#include "lab/machine.h"
#include "models/model.h"

namespace ft::cli {

/// Settings, token, cache folder and room; no request is made.
void check_hub(std::vector<Finding>& findings);

/// Reads the whole model and decodes, also with `drafters`; takes seconds to minutes.
void check_deeply(const std::string& model, std::span<const DraftFolder> drafters,
                  const BackendOptions& backend, std::vector<Finding>& findings, Terminal& terminal);

}  // namespace ft::cli
