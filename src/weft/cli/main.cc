// The weft command. Each subcommand is in the file of its name.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "weft/bench/bench.h"
#include "weft/cli/commands.h"

namespace weft::cli {

void add_renamed_option(CLI::App& command, const std::string& was, const std::string& is) {
  const CLI::callback_t refuse_it = [was, is](const std::vector<std::string>&) -> bool {
    throw CLI::ValidationError(was + " is not an option: it is called " + is + " now");
  };
  command.add_option(was, CLI::callback_t(refuse_it))->expected(0, 1)->group("");
}

int refuse(const std::string& why) {
  std::fprintf(stderr, "weft: %s\n", why.c_str());
  return bench::kExitBadRequest;
}

}  // namespace weft::cli

int main(int argc, char** argv) {
  CLI::App app("Weft: a strictly serializable, replicated, in-memory transactional store", "weft");
  int status = weft::bench::kExitDone;
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", "weft " WEFT_VERSION);
  app.footer("Begin with `weft up`. `weft COMMAND --help` says what a command takes.");
  weft::cli::add_up(app, &status);
  weft::cli::add_server(app, &status);
  weft::cli::add_bench(app, &status);
  weft::cli::add_sim(app, &status);
  weft::cli::add_check(app, &status);
  weft::cli::add_protocols(app, &status);
  weft::cli::add_doctor(app, &status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    const auto asked = app.get_subcommands();
    const std::string help = asked.empty() ? "weft --help" : "weft " + asked.front()->get_name() + " --help";
    return weft::cli::refuse(std::string(e.what()) + " (`" + help + "` says what there is)");
  }
  if (app.get_subcommands().empty()) return weft::cli::refuse("no command given (`weft --help` says what there is)");
  std::cout.flush();
  if (!std::cout || std::fflush(stdout) != 0) {
    std::fprintf(stderr, "weft: the output could not be written\n");
    return weft::bench::kExitFailed;
  }
  return status;
}
