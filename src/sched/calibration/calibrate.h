// Calibration: measures once the cost of rows and drafts on this machine, for the choice of depth
// (speculation/depth.h). It runs a few rounds at several depths on a throw-away sequence. It does so in
// sweeps, so that a busy moment of the machine does not affect one depth alone. Thread: the engine thread,
// while no slot is open. Cost: a third of a second; for long rounds, eight rounds and two short prompts.
// Later rounds correct the result. Errors: logged; the cost model then stays a guess.
#pragma once

#include <functional>

#include "base/clock.h"
#include "sched/calibration/worker_choice.h"
#include "speculation/decoder.h"

namespace ft {

struct Calibrated {
  bool measured = false;  // false: measuring failed; all or part of the result is a guess
  bool steady = true;     // false: repeated samples are far apart, so other programs held the machine up
  WorkerChoice workers;   // of small steps; the figures are for this number
};

/// Corrects figures that were measured while other programs held the machine up: no figure exceeds the
/// initial guess of a cost model. A figure that is too high would prevent drafts for the whole run, and
/// nothing would measure it again; a figure that is too low is corrected by the rounds that it allows.
CostFigures believed_of(CostFigures unsteady);

/// `now_ms`: a clock.
Calibrated calibrate(Decoder& decoder, const std::function<double()>& now_ms = steady_ms);

}  // namespace ft
