// Measures once what rows and drafts cost on this machine, for the depth of drafts (spec/depth.h): a few
// rounds at some depths on a throw-away sequence, in sweeps, so that a moment in which the machine was busy
// with something else does not fall on one depth alone. Thread: the engine thread, while no slot is open.
// Cost: a quarter of a second; where a round is long, three rounds and two short prompts, or twice the rounds
// if they are to be remembered (sched/cost_file.h). What rounds cost later corrects it. Errors: logged; the
// model of costs then stays a guess.
#pragma once

#include "spec/decoder.h"

namespace ft {

/// `long_sweeps`: how often long rounds are measured. False: it could not be measured, all or a part of it is
/// a guess.
bool calibrate(Decoder& decoder, int long_sweeps = 1);

}  // namespace ft
