// JSON schemas as clients write them, made regular for templates and grammars. Serializers write
// what is not set as null, and PHP writes an empty object as []: such a keyword counts as left out. A part of
// the schema that is `true`, as Rust's schemars writes "any value", becomes {}, which templates can read.
#pragma once

#include "api/json.h"

namespace ft::api {

/// Linear.
void make_schema_regular(Json& schema);
/// The same for the member "parameters" of a function, if it has one.
void make_parameters_regular(Json& function);

}  // namespace ft::api
