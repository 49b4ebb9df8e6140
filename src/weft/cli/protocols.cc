// `weft protocols`: the protocol table.
#include <CLI/CLI.hpp>
#include <iostream>

#include "weft/cli/commands.h"
#include "weft/txn/protocol_text.h"

namespace weft::cli {

void add_protocols(CLI::App& app, int* status) {
  CLI::App* command = app.add_subcommand(
      "protocols", "Print the protocol table: what each phase touches, with round trips and messages per commit");
  command->callback([status] {
    print_protocols(std::cout);
    *status = 0;
  });
}

}  // namespace weft::cli
