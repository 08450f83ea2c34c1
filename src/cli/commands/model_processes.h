// The processes of `serve --models`: one for each loaded model, this program with the same command line
// (cli/commands/behind_front.h). Thread: the server's I/O thread, which must outlive them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/serving.h"
#include "server/front/model_process.h"

namespace ft::cli {

struct NamedModel {
  std::string name, directory;  // as --model takes it
};

/// The models of --models, each with a different name. kNotFound, kInvalid: names the value.
Result<std::vector<NamedModel>> several_models(const std::vector<std::string>& values);

std::unique_ptr<server::ModelStarter> model_starter(std::vector<NamedModel> models, std::string secret);

}  // namespace ft::cli
