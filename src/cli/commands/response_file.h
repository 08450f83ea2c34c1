// Where `serve` keeps the responses of /v1/responses: `--response-store auto`, a file or off.
#pragma once

#include <memory>
#include <string>

#include "api/openai/response_store.h"
#include "base/result.h"

namespace ft::cli {

/// auto: responses.sqlite in the state folder, or memory, with a line in the log, if that cannot be used.
/// off: memory. Else a file, which is created if it is absent.
Result<std::shared_ptr<api::ResponseStore>> open_responses(const std::string& choice);

}  // namespace ft::cli
