// The parts of `serve`: its flags, an engine with several slots, the model info in answers, and the start
// screen.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/model_info.h"
#include "cli/args/flag.h"
#include "cli/args/options.h"
#include "cli/commands/connection_settings.h"
#include "cli/commands/loading.h"
#include "sched/engine.h"
#include "server/options.h"

namespace ft::cli {

/// For a process that serves one of several models (cli/commands/behind_front.h).
struct SharedMemory {
  std::int64_t machine_bytes = 0, device_bytes = 0;  // for all models together; 0: unknown
};

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8080;
  int slots = -1;  // -1: auto
  int queue = 256;
  int grace_s = 30;
  int cache_mb = -1;                    // -1: auto
  int cache_host_mb = -1;               // -1: auto
  int lookup_memory_mb = 64;            // 0: off
  std::string lookup_memory;            // folder; empty: none
  std::string response_store = "auto";  // auto, off or a file
  std::string cache_dir;                // auto or a folder; empty: none
  int cache_dir_mb = -1;                // -1: auto
  std::string cache_share = "speed";    // speed, keys or none
  int memory_mb = 0;                    // 0: the free memory
  bool max = false;                     // Max mode
  int head_s = 10, idle_s = 75;
  std::vector<std::string> api_keys, origins, hosts, aliases;
  std::string api_key_file, admin_key_file;
  std::string client;  // the client whose settings are printed; empty: none
  bool any_model = false, log_json = false, log_polls = false, image_urls = false, strict_fields = false;
  DrafterKind drafter = DrafterKind::kAuto;
  int depth = -1;
  std::vector<std::string> models;  // several: folders, names or all; empty: --model alone
  int idle_minutes = 30;            // of several models
  std::optional<SharedMemory> shared;
};

/// The drafters' folders go to `model`.
void add_serve_flags(FlagSet& flags, ServeOptions& serve, ModelOptions& model);

struct ServingKeys {
  std::vector<std::string> users, operators;
};
/// The keys of --api-key and of both files.
Result<ServingKeys> serving_keys(const ServeOptions& serve);

/// The address where `serve` would listen according to the environment and the settings file, and one of its
/// keys. Model and context are unknown. kInvalid if the server chooses its port at its start.
Result<ConnectionFacts> usual_connection();
/// The same of a server that runs.
ConnectionFacts connection_of(const api::ModelInfo& model_info, const std::string& url,
                              const std::vector<std::string>& keys);

/// Chooses slots, context and cache where they are open: sets loaded.context and loaded.plan. Adds the
/// packing time to load_ms.
/// `planned` is called before memory is taken; its error ends the start.
using Planned = std::function<Status(const MemoryReport& needed, const MemoryPlan& plan)>;
Result<std::unique_ptr<Engine>> start_serving_engine(LoadedModel& loaded, const ServeOptions& choice,
                                                     const Planned& planned = {});

std::shared_ptr<const api::ModelInfo> what_is_served(const LoadedModel& loaded, const Engine& engine,
                                                     const ServeOptions& choice,
                                                     const RequestOptions& request,
                                                     std::shared_ptr<api::ResponseStore> responses);

/// "http://127.0.0.1:8080"; a wildcard address becomes loopback.
std::string serving_url(const std::string& host, int port);
std::string serving_json(const api::ModelInfo& model_info, const MemoryPlan& plan, const std::string& url);
std::string serving_screen(const LoadedModel& loaded, const Engine& engine, const api::ModelInfo& model_info,
                           const std::string& url, const ServeOptions& choice,
                           const server::ServerOptions& options);
/// The start's choices for memory, a line each: the context, and the memory of the prefix cache.
std::string memory_lines(const LoadedModel& loaded, const ServeOptions& choice);

}  // namespace ft::cli
