#include "cli/commands/subcommands.h"

namespace ft::cli {

std::vector<Command> all_commands() {
  std::vector<Command> commands;
  commands.push_back(start_command());
  commands.push_back(pull_command());
  commands.push_back(models_command());
  commands.push_back(models_path_command());
  commands.push_back(models_check_command());
  commands.push_back(models_rm_command());
  commands.push_back(models_prune_command());
  commands.push_back(setup_command());
  commands.push_back(init_command());
  commands.push_back(run_command());
  commands.push_back(chat_command());
  commands.push_back(serve_command());
  commands.push_back(connect_command());
  commands.push_back(launch_command());
  commands.push_back(status_command());
  commands.push_back(bench_command());
  commands.push_back(bench_decode_command());
  commands.push_back(bench_kernels_command());
  commands.push_back(bench_serve_command());
  commands.push_back(bench_edits_command());
  commands.push_back(verify_command());
  commands.push_back(score_command());
  commands.push_back(tokenize_command());
  commands.push_back(inspect_command());
  commands.push_back(doctor_command());
  commands.push_back(max_command());
  commands.push_back(quantize_command());
  commands.push_back(convert_command());
  commands.push_back(graft_command());
  commands.push_back(tune_command());
  commands.push_back(synth_command());
  commands.push_back(completions_command());
  commands.push_back(manual_command());
  return commands;
}

}  // namespace ft::cli
