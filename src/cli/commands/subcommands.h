// One function per subcommand, each in the file of the same name.
#pragma once

#include "cli/args/command.h"

namespace ft::cli {

Command start_command();
Command setup_command();
Command init_command();
Command pull_command();
Command models_command();
Command models_path_command();
Command models_check_command();
Command models_rm_command();
Command models_prune_command();
Command run_command();
Command chat_command();
Command serve_command();
Command connect_command();
Command launch_command();
Command status_command();
Command bench_command();
Command bench_decode_command();
Command bench_kernels_command();
Command bench_serve_command();
Command bench_edits_command();
Command verify_command();
Command max_command();
Command score_command();
Command tokenize_command();
Command inspect_command();
Command doctor_command();
Command quantize_command();
Command convert_command();
Command graft_command();
Command tune_command();
Command synth_command();
Command completions_command();
Command manual_command();

/// All of them, in the order of --help; commands of two words come after commands of one.
std::vector<Command> all_commands();

}  // namespace ft::cli
