// A weight of a loaded model as a matrix that is read by rows. The model must outlive it.
#pragma once

#include "format/matrix_source.h"
#include "program/weight.h"

namespace ft::cli {

format::MatrixPointer matrix_of(const Weight& weight);

}  // namespace ft::cli
