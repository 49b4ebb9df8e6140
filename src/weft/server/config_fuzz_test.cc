// Any file content gives a configuration or errors, and each error is one line with its position.
#include <gtest/gtest.h>

#include <string>

#include "weft/base/random.h"
#include "weft/base/source_testing.h"
#include "weft/server/config.h"
#include "weft/server/config_testing.h"

namespace weft {
namespace {

void expect_an_answer(const std::string& text) {
  const LoadedConfig loaded = parse_config(text, "n.toml");
  for (const std::string& error : loaded.errors) {
    ASSERT_TRUE(error.starts_with("n.toml:")) << error;
    ASSERT_EQ(error.find('\n'), std::string::npos) << error;
    ASSERT_EQ(error.find('\0'), std::string::npos) << error;
  }
  if (loaded) {
    const LoadedConfig again = parse_config(to_toml(loaded.config), "n.toml");
    ASSERT_TRUE(again) << joined(again.errors) << text;
    ASSERT_EQ(to_toml(again.config), to_toml(loaded.config)) << text;
  }
}

std::string example() {
  std::string text = file_text(source_path("examples/node.toml"));
  EXPECT_FALSE(text.empty());
  return text;
}

TEST(ConfigFuzz, MutatedBytes) {
  const std::string sound = example();
  constexpr std::string_view kLikely = "\"'[]{}=.#,\n\\0123456789-+_eEx\t\x80\xff";
  Random random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = sound;
    for (uint64_t changes = random.between(1, 6); changes != 0; --changes) {
      const size_t at = random.below(text.size());
      const char byte =
          random.chance(70) ? kLikely[random.below(kLikely.size())] : static_cast<char>(random.below(256));
      switch (random.below(4)) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        case 2:
          text.erase(at, random.between(1, 20));
          break;
        default:
          text.insert(at, text.substr(random.below(text.size()), random.below(60)));
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_an_answer(text)) << text;
  }
}

// Values of other types and ranges, such that the text is still TOML.
TEST(ConfigFuzz, MutatedValues) {
  const std::string sound = example();
  constexpr const char* kValues[] = {"0",
                                     "1",
                                     "-1",
                                     "9223372036854775807",
                                     "\"\"",
                                     "\"x\"",
                                     "\"a:1\"",
                                     "\"/\"",
                                     "\"1KiB\"",
                                     "1.5",
                                     "nan",
                                     "true",
                                     "[]",
                                     "{}",
                                     "{a = 1}",
                                     "1979-05-27",
                                     "\"@\"",
                                     "\"shm\"",
                                     "\"tcp\"",
                                     "\"zookeeper\"",
                                     "\"supervisor\"",
                                     "\"0.0.0.0:0\"",
                                     "\"\\u0000\""};
  Random random(8);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    size_t at = 0;
    while (at < sound.size()) {
      const size_t end = sound.find('\n', at) + 1;
      std::string line = sound.substr(at, end - at);
      const size_t equals = line.find(" = ");
      const uint64_t turn = random.below(20);
      if (equals != std::string::npos && turn == 0) {
        line = line.substr(0, equals + 3) + kValues[random.below(std::size(kValues))] + "\n";
      } else if (turn == 1) {
        line.clear();
      } else if (turn == 2 && line.starts_with("# ") && equals != std::string::npos) {
        line.erase(0, 2);
      }
      text += line;
      at = end;
    }
    ASSERT_NO_FATAL_FAILURE(expect_an_answer(text)) << text;
  }
}

TEST(ConfigFuzz, Garbage) {
  Random random(9);
  for (int i = 0; i < 300; ++i) {
    std::string text(random.below(4000), '\0');
    for (char& c : text) c = static_cast<char>(random.below(256));
    ASSERT_NO_FATAL_FAILURE(expect_an_answer(text));
  }
  expect_an_answer(std::string(1000, '\0'));
  for (const char* text : {"[=]", "[.]", "[[.]]", "[a.", "[", "\"", "'''", "a.", "a=", "a={", "a={b", "a=[", "[\"a"}) {
    expect_an_answer(text);
  }
  expect_an_answer(std::string("\xef\xbb\xbf", 3) + std::string(kMinimalConfig));
  for (unsigned c = 0x80; c < 0x3400; ++c) {  // each of these characters, outside of a string
    std::string text = "x =  = 1\n";
    const auto add = [&](unsigned bits) { text.insert(text.end() - 5, static_cast<char>(bits)); };
    if (c < 0x800) add(0xc0 | c >> 6);
    if (c >= 0x800) add(0xe0 | c >> 12), add(0x80 | (c >> 6 & 0x3f));
    add(0x80 | (c & 0x3f));
    EXPECT_FALSE(parse_config(text, "n.toml")) << c;
  }
  EXPECT_FALSE(parse_config(std::string("\x7f"
                                        "ELF\x02\x01\x01\0",
                                        8),
                            "n.toml"));
}

// Nesting as deep as the limit of a line allows.
TEST(ConfigFuzz, Depth) {
  const auto times = [](const std::string& part, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += part;
    return out;
  };
  const size_t dots = kConfigLineBytesMax / 2 - 8;
  expect_an_answer("[a" + times(".a", dots) + "]\nb" + times(".b", dots) + " = 1\n");
  expect_an_answer("[[a" + times(".a", dots) + "]]\nb" + times(".b", dots) + " = 1\n");
  expect_an_answer("x = " + times("[", 4000));
  expect_an_answer("x = " + times("[\n", 100'000));
  expect_an_answer("x = " + times("{a=", 1300));
  expect_an_answer("fabric.tls = " + times("[", 200) + times("]", 200));
}

TEST(ConfigFuzz, ManyLines) {
  std::string text;
  while (text.size() < kConfigBytesMax - 16) text += "[k" + std::to_string(text.size()) + "]\n";
  expect_an_answer(text);
  expect_an_answer(std::string(kConfigBytesMax, '\n'));
}

}  // namespace
}  // namespace weft
