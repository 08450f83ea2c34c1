// The places of a program's row matrices: one buffer, in which a matrix takes the place of matrices that are
// not read any more. Owner: an executable.
#pragma once

#include <vector>

#include "program/program.h"

namespace ft::metal {

class RowPlan {
 public:
  RowPlan(const Program& program, int max_rows);
  std::size_t bytes() const { return bytes_; }
  std::size_t offset(Row row) const { return matrices_[static_cast<std::size_t>(row.id)].offset; }

 private:
  struct Matrix {
    std::size_t bytes = 0, offset = 0;
    int first = -1, last = -1;  // instructions, both included
  };
  std::vector<Matrix> matrices_;  // by row id
  std::size_t bytes_ = 0;
};

}  // namespace ft::metal
