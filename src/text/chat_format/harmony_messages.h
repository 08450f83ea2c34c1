// Messages of the API in the form that the template of gpt-oss takes.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ft {

/// Changes the variables of a rendering: texts in parts become one text; reasoning is named `thinking`; each
/// call gets a separate message, with its result after it, because the template renders one call per
/// message; text next to a call joins the reasoning, because the template refuses both. Without thinking the
/// effort is low, unless the request names one: the template has no lower one.
void prepare_harmony(nlohmann::ordered_json& context);

}  // namespace ft
