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
      R"(name      lock                validate replicate unlock   log  commit ack  abort ack  trips messages verbs delays procedure scans     by
dnl4      P W, with value     reads    B W       P W      undo unlock      at once    4     10       0     8, 6   10, 6     yes       II II II II II
dnl2      P R&W               -        P&B W     P R&W    undo replicate   at once    2     14       0     6, 4   12, 8     read-only II II - II II
dnl1      P&B R&W, with value -        -         P&B R&W  redo lock        all acks   1     24       0     4, 2   14, 8     read-only II II - - II
fasst     P W, while reading  reads    B W       P W      undo unlock      at once    3     8        0     6, 6   8, 8      yes       II II II II II
farm      P W, with value     reads    B W       P W      redo unlock      at once    4     4        3     8, 8   -         yes       I II I I II
drtmr     P W                 reads    P&B W     P W      redo replicate   at once    3     0        8     6, 6   -         yes       I I I I I
drtmh     P W                 reads    P&B W     P W      redo replicate   at once    3     0        8     6, 6   -         yes       I/II I I I I
drtmh-nc  P W                 reads    P&B W     P W      redo replicate   at once    3     0        8     6, 6   -         yes       I I I I I
hop       P W, while reading  reads    P&B W     P W      undo replicate   at once    2     10       0     3, 3   8, 6      yes       II II II II II
dnl-ro    -                   reads    -         -        -    validate    at once    1     2        0     4, 4   4, 4      yes       II - II - -

One phase apart from those, for `weft bench phases`:
dnl4-e-nc P W, with value     reads    B W       P W      undo unlock      at once    4     10       0     8, 6   -         yes       I II II II II
dnl4-e    P W, with value     reads    B W       P W      undo unlock      at once    4     10       0     8, 6   -         yes       I II II II II
dnl4-ev   P W, with value     reads    B W       P W      undo unlock      at once    4     8        1     8, 6   -         yes       I II I II II
drtmr-m   P W                 reads    P&B W     P W      redo replicate   at once    3     4        4     6, 6   -         yes       I II I I II

P primary, B backups, R keys only read, W written keys.
by: execute, lock, validate, log, commit; I one-sided verbs, II messages, I/II verbs where the place is known.
commit ack: after the answers of that phase; follows from the row (docs/protocols.md).
trips: round trips until the acknowledgement; messages (with answers), verbs: of one commit, 3 replicas; all for
a transaction that reads one key and writes another, all remote. Fewer where steps are local.
delays: message delays until a stored procedure that updates one key is acknowledged, called where no replica is,
and at a backup; procedure: its messages until it is unlocked, with answers, in rows without verbs.
hop sends a procedure whose keys have one remote primary there, and its backups answer.
scans: which transactions may scan ordered tables: all, or those that write nothing.
)");
}

}  // namespace
}  // namespace weft
