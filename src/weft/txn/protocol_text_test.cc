#include "weft/txn/protocol_text.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace weft {
namespace {

// Without the blanks at the ends of lines, which editors like to remove.
std::string printed() {
  std::ostringstream out;
  print_protocols(out);
  std::istringstream in(out.str());
  std::string text;
  for (std::string line; std::getline(in, line);) {
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

TEST(ProtocolText, IsTheTable) {
  EXPECT_EQ(
      printed(),
      R"(name     lock                  validate   replicate   unlock                log    commit told  abort told    trips  messages
dnl4     P W, with value       reads      B W         P W                   undo   unlock       at once       4      10
dnl2     P R&W                 -          P&B W       P R&W                 undo   replicate    at once       2      14
dnl1     P&B R&W, with value   -          -           P&B R&W               redo   lock         all acks      1      24
fasst    P W, while reading    reads      B W         P W                   undo   unlock       at once       3      8
dnl-ro   -                     reads      -           -                     -      validate     at once       1      2

P primary, B backups, R keys only read, W written keys. Every phase goes by message.
commit told: after the answers of that phase; follows from the row (docs/protocols.md).
trips: round trips until the commit is told; messages: of one commit with answers, 3 replicas; both for a
transaction that reads one key and writes another, all remote. Fewer where steps are local.
)");
}

}  // namespace
}  // namespace weft
