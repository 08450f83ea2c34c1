#include "server/front/front_metrics.h"

#include "server/exposition.h"

namespace ft::server {
namespace {

template <class Read>
void sample_each(Exposition& text, const ModelPool& pool, Read read) {
  for (const PooledModel& model : pool.models())
    text.sample(static_cast<double>(read(model)), {{"model", model.id}});
}

}  // namespace

std::string front_metrics_text(const ModelPool& pool, const HttpCounters& http) {
  Exposition text;
  text.gauge("foretoken_model_ready", "1: the model is loaded and answers.");
  sample_each(text, pool,
              [](const PooledModel& one) { return one.state == PooledModel::State::kReady ? 1 : 0; });
  text.gauge("foretoken_model_memory_bytes", "Memory that the loaded model may use.");
  sample_each(text, pool, [](const PooledModel& one) { return one.loaded() ? one.bytes : 0; });
  text.gauge("foretoken_model_answering", "Requests that the model answers.");
  sample_each(text, pool, [](const PooledModel& one) { return one.answering; });
  text.gauge("foretoken_model_waiting", "Requests that wait for the model to be loaded.");
  sample_each(text, pool, [](const PooledModel& one) { return one.waiting; });
  text.counter("foretoken_model_loads_total", "Times that the model was loaded.");
  sample_each(text, pool, [](const PooledModel& one) { return one.loads; });
  text.counter("foretoken_model_unloads_total", "Times that the model was unloaded.");
  sample_each(text, pool, [](const PooledModel& one) { return one.unloaded; });
  text.counter("foretoken_model_crashes_total", "Times that the model's process ended unexpectedly.");
  sample_each(text, pool, [](const PooledModel& one) { return one.crashes; });
  text.counter("foretoken_model_load_failures_total", "Loads of the model that failed.");
  sample_each(text, pool, [](const PooledModel& one) { return one.failures; });
  http.write(text);
  return text.text();
}

}  // namespace ft::server
