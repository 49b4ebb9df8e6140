// The subcommands of `weft`. Each adds itself to the command line and, if it was requested, runs and sets the exit
// status: 0 success, 1 the run failed, 2 the request was wrong.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace weft::cli {

void add_up(CLI::App& app, int* status);
void add_server(CLI::App& app, int* status);
void add_bench(CLI::App& app, int* status);
void add_sim(CLI::App& app, int* status);
void add_check(CLI::App& app, int* status);
void add_protocols(CLI::App& app, int* status);
void add_doctor(CLI::App& app, int* status);

// Has the command refuse an option that was renamed, and name the new one. It is not in the command's help.
void add_renamed_option(CLI::App& command, const std::string& was, const std::string& is);

// Writes to stderr why a request cannot be served; returns the exit status for it.
int refuse(const std::string& why);

}  // namespace weft::cli
