// GET /metrics of a server of several models: the processes' states and the server's answers. The
// figures of one model's engine are at /metrics?model=NAME while it is loaded.
#pragma once

#include <string>

#include "server/front/model_pool.h"
#include "server/metrics_text.h"

namespace ft::server {

std::string front_metrics_text(const ModelPool& pool, const HttpCounters& http);

}  // namespace ft::server
