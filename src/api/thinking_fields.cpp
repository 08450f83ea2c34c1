#include "api/thinking_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "text/reasoning_effort.h"

namespace ft::api {

Status read_effort(const Fields& fields, std::string_view name, GenerateParams& call) {
  std::vector<std::string_view> words{"none"};
  words.insert(words.end(), kEfforts.begin(), kEfforts.end());
  words.insert(words.end(), {"auto", "default"});
  FT_ASSIGN(const auto effort, fields.word(name, words));
  if (!effort || *effort == "auto" || *effort == "default") return {};
  call.think = *effort != "none";
  if (*call.think) call.effort = *effort;
  return {};
}

Status read_template_fields(const Fields& fields, GenerateParams& call) {
  FT_ASSIGN(const Json* given, fields.object("chat_template_kwargs"));
  Json variables = given != nullptr ? *given : Json::object();
  if (const auto think = variables.find("enable_thinking"); think != variables.end()) {
    if (!think->is_boolean()) {
      return wrong(fields.at("chat_template_kwargs.enable_thinking"),
                   fmt::format("must be true or false, found {}", kind_of(*think)));
    }
    call.think = think->get<bool>();
    variables.erase("enable_thinking");
  }
  if (!variables.empty()) call.template_variables = dump(variables);
  FT_ASSIGN(const auto budget, fields.integer("thinking_budget", -1, 1 << 24));
  call.thinking_budget = static_cast<int>(budget.value_or(-1));
  return {};
}

}  // namespace ft::api
