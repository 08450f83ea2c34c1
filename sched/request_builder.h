// Builds a request from what a caller asks and what every request needs of its model. The commands and the
// HTTP API build theirs here. Errors: kTooLong (speculation/context_room.h), those of Request::make.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/request.h"

namespace ft {

/// What a request needs of its model.
struct RequestModel {
  int vocabulary = 0;        // columns of logits
  std::int64_t context = 0;  // tokens of prompt and answer together
  std::vector<std::int32_t> eos;
};

/// Fills slot.context and slot.eos.
Result<Request> build_request(RequestFields fields, const RequestModel& model);

}  // namespace ft
