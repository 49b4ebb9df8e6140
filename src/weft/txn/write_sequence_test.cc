// Several writes of one key in one transaction: each has its meaning at its place in the sequence.
#include <initializer_list>
#include <string>

#include "weft/txn/stepped_cluster_testing.h"

namespace weft {
namespace {

struct Sequence {
  const char* ops;  // g get, p put, i insert, e erase
  bool present;     // before
  Code outcome;
  bool present_after;
};

class WriteSequence : public testing::TestWithParam<Shape> {
 protected:
  void check(std::initializer_list<Sequence> all) {
    SteppedCluster cluster(GetParam().options());
    cluster.start();
    uint64_t key = 0;
    for (const Sequence& s : all) {
      ++key;
      const std::string what = std::string(s.ops) + (s.present ? " on a present key" : " on an absent key");
      if (s.present) {
        EXPECT_TRUE(committed(retried([&] { return cluster->put_one(NodeId(0), kT, key, "before"); })));
      }
      cluster.on(0, [&](Session& session) -> Task<void> {
        Txn txn = co_await session.begin();
        for (const char* op = s.ops; *op != 0; ++op) {
          if (*op == 'g') co_await txn.get(kT, key, Intent::kUpdate);
          if (*op == 'p') txn.put(kT, key, "after");
          if (*op == 'i') txn.insert(kT, key, "after");
          if (*op == 'e') txn.erase(kT, key);
        }
        const Outcome outcome = co_await txn.commit();
        EXPECT_EQ(code_name(outcome.code), code_name(s.outcome)) << what << ": " << outcome.text();
      });
      EXPECT_EQ(cluster->get_one(NodeId(0), kT, key).found, s.present_after) << what;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Few, WriteSequence, testing::ValuesIn(few_shapes()), shape_name);

TEST_P(WriteSequence, TheLastWriteStays) {
  check({{"gpp", true, Code::kOk, true},
         {"gpe", true, Code::kOk, false},
         {"gpe", false, Code::kOk, false},
         {"gie", false, Code::kOk, false},
         {"gei", true, Code::kOk, true},
         {"ei", true, Code::kOk, true},
         {"gipp", false, Code::kOk, true},
         {"gpei", true, Code::kOk, true},
         {"geie", true, Code::kOk, false}});
}

// insert requires that the key is absent, erase that it exists; a later write of the key does not take that back.
TEST_P(WriteSequence, ALaterWriteDoesNotTakeBackWhatAnEarlierOneDemands) {
  check({{"pi", false, Code::kExists, false},
         {"ii", false, Code::kExists, false},
         {"gi", true, Code::kExists, true},
         {"gie", true, Code::kExists, true},
         {"gip", true, Code::kExists, true},
         {"ip", true, Code::kExists, true},
         {"ei", false, Code::kNotFound, false},
         {"gei", false, Code::kNotFound, false},
         {"ep", false, Code::kNotFound, false},
         {"gep", false, Code::kNotFound, false},
         {"ee", true, Code::kNotFound, true},
         {"gee", true, Code::kNotFound, true}});
}

// A key that this transaction has written exists for it, whether or not it was read before.
TEST_P(WriteSequence, EraseTakesBackABlindWrite) {
  check({{"pe", true, Code::kOk, false},
         {"pe", false, Code::kOk, false},
         {"ie", false, Code::kOk, false},
         {"ie", true, Code::kExists, true},
         {"eie", true, Code::kOk, false}});
}

}  // namespace
}  // namespace weft
