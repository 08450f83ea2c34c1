// The parts of `serve`: its flags, an engine with several slots, the model info in answers, and the start
// screen.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/served.h"
#include "cli/flag.h"
#include "cli/loading.h"
#include "cli/options.h"
#include "sched/engine.h"
#include "server/options.h"

namespace ft::cli {

struct ServeChoice {
  std::string host = "127.0.0.1";
  int port = 8080;
  int slots = 8;
  int queue = 256;
  int grace_s = 30;
  int cache_mb = 1024;
  std::string cache_dir;  // empty: none
  int cache_dir_mb = 4096;
  int memory_mb = 0;  // 0: what the machine has left
  int head_s = 10, idle_s = 75;
  std::vector<std::string> api_keys, origins, hosts, aliases;
  std::string api_key_file;
  bool any_model = false, log_json = false;
  DrafterKind drafter = DrafterKind::kAuto;
  int depth = -1;
};

void add_serve_flags(FlagSet& flags, ServeChoice& serve);

/// Adds the packing time to load_ms.
Result<std::unique_ptr<Engine>> start_serving_engine(Loaded& loaded, const ServeChoice& choice);

std::shared_ptr<const api::Served> what_is_served(const Loaded& loaded, const Engine& engine,
                                                  const ServeChoice& choice, const SamplingChoice& sampling);

/// "http://127.0.0.1:8080"; a wildcard address becomes loopback.
std::string serving_url(const std::string& host, int port);
std::string serving_json(const api::Served& served, const std::string& url);
std::string serving_screen(const Loaded& loaded, const Engine& engine, const api::Served& served,
                           const std::string& url, const server::ServerOptions& options);

}  // namespace ft::cli
