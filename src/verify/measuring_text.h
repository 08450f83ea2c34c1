// The text on which `graft` and `quantize --verify` measure if no other is given: code, prose and a
// conversation, because acceptance depends on how regular a text is. Written for this project.
#pragma once

#include <string_view>

namespace ft {

std::string_view measuring_text();

}  // namespace ft
