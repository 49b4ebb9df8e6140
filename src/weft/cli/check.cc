// `weft check FILE`: is a recorded history strictly serializable?
#include "weft/check/checker.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "weft/cli/commands.h"

namespace weft::cli {

void add_check(CLI::App& app, int* status) {
  auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "check",
      "Check a history (JSON lines, list-append) for strict serializability; name the anomaly if there is one");
  command->add_option("file", *file, "The history, one transaction a line")->required();
  command->footer("Exit status: 0 valid, 1 an anomaly, 2 not a history.");
  command->callback([file, status] { *status = run_check(*file, std::cout, std::cerr); });
}

}  // namespace weft::cli
