#include "sched/request_builder.h"

#include <utility>

#include "speculation/context_room.h"

namespace ft {

Result<Request> build_request(RequestFields fields, const RequestModel& model) {
  FT_TRY(check_room(static_cast<std::int64_t>(fields.prompt.size()), model.context));
  fields.slot.context = model.context;
  fields.slot.eos = model.eos;
  return Request::make(std::move(fields), model.vocabulary);
}

}  // namespace ft
