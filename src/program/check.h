// Checks a program's shapes once, before any backend packs a weight: every operand exists and is written
// before it is read, and every weight has the size that its rows require. An Error names the instruction, its
// number and the weight.
#pragma once

#include "base/result.h"
#include "program/program.h"

namespace ft {

Status check(const Program& program);

}  // namespace ft
