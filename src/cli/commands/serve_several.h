// `serve --models`: several models at one address. This process is the front (server/front/front.h); it
// reads no weights.
#pragma once

#include "base/result.h"
#include "cli/args/options.h"
#include "cli/commands/serving.h"
#include "cli/terminal/terminal.h"

namespace ft::cli {

/// kInvalid for flags that belong to one model.
Result<int> serve_several(const ServeOptions& choice, const OutputOptions& output, Terminal& terminal);

}  // namespace ft::cli
