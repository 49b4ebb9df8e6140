// Script tests: a text file of cases, each some lines of input, a line "----", and the recorded output, up to an empty
// line. Lines that begin with # describe a case for readers. A test provides a function from input to output; where the
// output differs it fails with both. With WEFT_RECORD set in the environment the outputs are written into the file
// instead, to be reviewed in the diff.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "weft/base/source_testing.h"

namespace weft {

struct ScriptCase {
  std::vector<std::string> about;  // comment lines
  std::vector<std::string> input;
  std::string output;
  int line = 0;
};

inline std::vector<ScriptCase> read_script(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::vector<ScriptCase> cases;
  ScriptCase now;
  bool in_output = false;
  int number = 0;
  const auto end_case = [&] {
    if (!now.input.empty() || !now.about.empty()) cases.push_back(now);
    now = ScriptCase();
    in_output = false;
  };
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) {
      end_case();
    } else if (in_output) {
      now.output += line + "\n";
    } else if (line == "----") {
      in_output = true;
    } else if (line.starts_with("#")) {
      now.about.push_back(line);
    } else {
      if (now.input.empty()) now.line = number;
      now.input.push_back(line);
    }
  }
  end_case();
  return cases;
}

// `run` gets a case's input and returns its output, lines that each end in a newline.
inline void run_script(const char* source_file,
                       const std::function<std::string(const std::vector<std::string>&)>& run) {
  const std::string path = source_path(source_file);
  std::vector<ScriptCase> cases = read_script(path);
  size_t ran = 0;
  for (ScriptCase& one : cases) {
    if (one.input.empty()) continue;  // only a comment
    ++ran;
    const std::string output = run(one.input);
    if (std::getenv("WEFT_RECORD") == nullptr) {
      EXPECT_EQ(output, one.output) << source_file << ":" << one.line;
    }
    one.output = output;
  }
  EXPECT_GT(ran, 0U) << source_file << " has no case";
  if (std::getenv("WEFT_RECORD") == nullptr) return;
  std::ofstream file(path);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (i != 0) file << "\n";
    for (const std::string& line : cases[i].about) file << line << "\n";
    for (const std::string& line : cases[i].input) file << line << "\n";
    if (!cases[i].input.empty()) file << "----\n" << cases[i].output;
  }
}

// The words of a line.
inline std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

}  // namespace weft
