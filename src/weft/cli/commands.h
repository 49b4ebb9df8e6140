// The subcommands of `weft`. Each adds itself to the command line and, when it was the one asked for, runs and leaves
// its exit status: 0 done, 1 what ran went wrong, 2 the request was wrong.
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

// Says on stderr why a request cannot be carried out; returns the exit status for it.
int refuse(const std::string& why);

}  // namespace weft::cli
