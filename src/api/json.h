// The JSON type of the API. It is ordered because the order of a tool's schema is part of the prompt.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ft::api {

using Json = nlohmann::ordered_json;

}  // namespace ft::api
