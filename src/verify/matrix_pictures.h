// Pictures of the losslessness matrix: drawn here, so that no file is needed, and passed to the model like
// any other file.
#pragma once

#include <string>

namespace ft {

/// The file of a small picture (BMP): a disc and a bar whose places and colours depend on `number`.
std::string drawn_picture(int number);

}  // namespace ft
