// The tools of POST /v1/responses: the request offers some, and items (tool_search_output, additional_tools)
// bring others. Each is offered once. A namespace's functions and custom tools are offered to
// the model as `namespace__name`, and their calls have both parts again. Source: OpenAI's API reference,
// Responses.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "api/fields.h"
#include "api/generate_params.h"

namespace ft::api {

/// Reads the tools of a body and its items into `call`: tools, call_names, and what read_tools reads.
/// Returns the tools as {type: function, function}. The first `skipped` items come from earlier answers.
/// Tools of items beyond kMaxTools are left out and counted.
Result<Json> read_responses_tools(const Fields& fields, const Json& items, std::size_t skipped,
                                  GenerateParams& call);

/// The names under which tools are offered, by the client's names for them.
class OfferedNames {
 public:
  explicit OfferedNames(const std::map<std::string, CallName>& call_names);
  /// The joined name for a tool that is not offered.
  std::string of(const std::string& space, const std::string& name) const;
  std::string of_client_tool(const std::string& type) const;

 private:
  std::map<std::string, std::string> client_tools_;
  std::map<std::pair<std::string, std::string>, std::string> names_;
};

}  // namespace ft::api
