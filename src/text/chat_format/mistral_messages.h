// Messages of the API in the form that Mistral's templates take.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ft {

/// Changes the variables of a rendering. The templates refuse two messages of one role in a row, so texts of
/// the same role are joined. Some refuse an id of a call that has not nine letters and digits, so other ids
/// become such, the same one for a call and its result.
void prepare_mistral(nlohmann::ordered_json& context);

}  // namespace ft
