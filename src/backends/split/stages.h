// A program cut into stages: each is a program of one part (placement.h), which reads the rows that it needs
// of earlier stages through inputs and leaves the rows that later ones need in captures. An instruction joins
// the earliest stage of its part in which its inputs are there; so work that does not depend on another part
// is done first. Row ids belong to the whole program. Owner: the caller. Cost: a few passes over
// the list.
#pragma once

#include <vector>

#include "backends/split/placement.h"

namespace ft::split {

/// A row that a later stage reads: where it is made and who reads it.
struct Crossing {
  Row row;
  int stage = 0, part = 0;
  std::vector<int> readers;  // parts, ascending; its own may be among them
  int last_stage = 0;        // that reads it
  bool captured = false;     // a capture of the whole program reads it
};

/// A capture of the whole program.
struct StageCapture {
  int number = 0;  // in the whole program
  int crossing =
      -1;       // that has its rows; -1: the stage's own captures are the whole program's, at its places
  int own = 0;  // in the stage's program, with crossing -1
};

struct Stage {
  int part = 0;
  Program program;
  std::vector<int> inputs;   // crossings, by Input::number
  std::vector<int> outputs;  // crossings, by Capture::number
  std::vector<StageCapture> captures;
  bool embeds = false;   // it reads the step's tokens or embedded rows
  bool answers = false;  // it makes the logits and samples them
};

struct Stages {
  std::vector<Stage> list;
  int home = 0;  // the part that answers, and where captured rows go
  std::vector<Crossing> crossings;
  SplitLayout layout;
};

/// kUnsupported: more rows cross a border than a program may have inputs and captures, or the program takes
/// hidden rows.
Result<Stages> cut(const Program& program, const Placement& placement);

}  // namespace ft::split
