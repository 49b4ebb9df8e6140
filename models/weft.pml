/*
 * Commit and recovery of Weft's protocol rows. One file for all of them; the C preprocessor chooses:
 *
 *   ROW       4, 2, 1, 3 dnl4, dnl2, dnl1, fasst, by messages
 *             5, 6       farm, drtm (drtmr, drtmh, drtmh-nc), by verbs; what a row is, in terms of the model, is below
 *             7          hop: as fasst, logs at the primaries too, and ships what one other node can execute
 *   F         1, 2       crashes that must be survived: F + 1 replicas, F + 2 nodes
 *   VIEWS     1, 2       crashes, F if not given; more than F only while every key keeps a replica
 *   NT        1, 2       transactions
 *   BOTH      0, 1       0: T0 reads x and writes y, T1 reads y and writes x (write skew)
 *                        1: both write both keys, T0 has read x, T1 has read y
 *   LATE      0, 1, 2    1: T1 begins only after the first view change, 2: T0
 *   MIXED     0, 1       1: drtm, and the key that T has not read is locked and committed by message
 *   SLOT      0, 1       1: T0 and T1 are the first and the second of one coordinator's slot (not dnl2; verbs: BOTH)
 *   LIVES     0, 1       1: a node that a view removes goes on in the old one until its leases have run out
 *   PAIR      0, 1       1: a transaction that reads x and y at one node that has both, and commits there (dnl2, dnl1)
 *   CLIENTS   0, 1       1: at the end only what clients may notice is checked, so that a bug must do harm to be found
 *   BUG       0, ...     a planted bug, see below
 *
 * models/README.md says what is left out and how to read a trail.
 */
#ifndef ROW
#define ROW 4
#endif
#ifndef F
#define F 1
#endif
#ifndef VIEWS
#define VIEWS F
#endif
#ifndef NT
#define NT 2
#endif
#ifndef BOTH
#define BOTH 0
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef MIXED
#define MIXED 0
#endif
#ifndef SLOT
#define SLOT 0
#endif
#ifndef LIVES
#define LIVES 0
#endif
#ifndef PAIR
#define PAIR 0
#endif
#ifndef CLIENTS
#define CLIENTS 0
#endif
#ifndef BUG
#define BUG 0
#endif

/* The rows, as txn/protocol.h has them. */
#define LOCKS_ALL (ROW == 1)                /* all replicas of all keys, with the value */
#define LOCKS_READS (ROW == 1 || ROW == 2)
#define LOCKS_FIRST (ROW == 3 || ROW == 7)  /* locks before it reads, without the value */
#define VALIDATES (ROW >= 3)
#define LOGS (ROW != 1)                     /* there is a replicate phase, */
#define LOGS_PRIMARY (ROW == 2 || ROW == 6 || ROW == 7) /* to the primaries too, and told after it */
#define SHIPS (ROW == 7)                    /* a transaction may be executed by the primary of what its coordinator has not */
#define RINGS (ROW == 5 || ROW == 6)        /* by WRITE into a ring, except at the coordinator's own node; backups redo */
#define SWAPS (ROW == 6)                    /* locks by CAS, commits by WRITE, except at the coordinator's own node */
#define NEXT_USE (SLOT && !RINGS && ROW != 2) /* a slot's next transaction truncates the records of its last one */

#define TOLD_EARLY 1          /* dnl4: told after the backups' answers; dnl2: without the primaries'; dnl1: without the backups' */
#define NO_VALIDATION 2       /* what was read is not compared with what is there (dnl4: no validation; else: lock anything) */
#define NO_READ_RECORDS 3     /* dnl1: no record of keys only read */
#define ABORT_AT_ONCE 4       /* dnl1: an abort is told before it reached those who locked */
#define IGNORE_COMMITTED 5    /* recovery does not look at COMMITTED */
#define IGNORE_REPLICATED 6   /* recovery does not look at REPLICATED */
#define OLD_EPOCH 7           /* a message of an epoch that ended is handled */
#define FLAG_STAYS_LOW 8      /* recovery does not raise flags */
#define LOCK_STAYS 9          /* recovery does not release locks */
#define NO_MARK 10            /* a truncated record leaves nothing: finished looks like never arrived */
#define REDO_UNCHECKED 11     /* recovery installs without comparing versions */
#define NOT_WRITTEN 12        /* a decision is applied, the record dropped, and was not written before */
#define SERVES_EARLY 13       /* a node serves, and tells, when it has applied, before the others have written */
#define HANDLES_EARLY 14      /* RESETTLES, and between applying and active a node handles messages of the new epoch */
#define UNDO_UNCHECKED 15     /* HANDLES_EARLY, and undo does not compare versions either */
#define VALUES_UNCHECKED 16   /* recovery commits on REPLICATED although a value is lost */
#define FLAG_NOT_LOWERED 17   /* a backup applies and stays readable */
#define DECIDES_ANEW 18       /* a later recovery does not look at the decisions an earlier one has written */
#define WRITES_LITTLE 19      /* the leader goes on when it has written its decision at one node */
#define DECISION_ALONE 20     /* a written decision does not bring the values */
#define ASKS_WRITERS 21       /* dnl1: recovery commits if every survivor that holds a written key has LOCKED */
#define APPLIES_AT_ONCE 22    /* no bug, see README.md: a node applies when it has written, before the others have */
#define UNDO_BLIND 23         /* no bug, see README.md: undo does not compare versions */
#define HANDLES_APPLIED 26    /* no bug, see README.md: between applying and active a node handles messages of the new epoch */
#define RESETTLES 25          /* a recovery applies again what an earlier one has applied here */
#define DECISION_OWN_KEYS 24  /* a written decision brings only the values of the node's own keys */
#define LOG_MISSES_PRIMARY 30 /* fasst, drtm: what a lock without the value has locked is logged at the backups only */
#define NOT_DRAINED 31        /* what is still in the rings when a node stops is lost */
#define REVOKE_LATE 32        /* verbs of the old view land until decisions are applied */
#define UNLOCK_EARLY 33       /* primaries are unlocked before the log is complete; told when it is */
#define FREES_EARLY 34        /* drtm: locks of verbs are freed when a node stops, not when it has applied */
#define HALF_READ 35          /* drtm: the word is written before the value, and a reader does not notice */
#define DRAINS_ACTIVE 36      /* a node that is not active yet does not look into its rings when it stops again */
#define NOTICE_FIRST 37       /* a message is handled before what is in the rings */
#define NOT_FENCED 38         /* recovery does not wait until a removed node's leases have run out */
#define BACKUP_SERVES 39      /* a backup answers single reads, and has not installed what is in its log */
#define RING_OVERTAKES 40     /* SLOT: a ring entry of a slot's next transaction replaces the record of the last */
#define FREES_BY_NAME 41      /* drtm, SLOT: carrying out a decision frees the locks that have its owner's name */
#define K2_COUNTED 42         /* fasst, drtm: the log goes to the primary only if the coordinator is a backup (VIEWS > F) */
#define REUSED_UNACKED 43     /* SLOT: a slot is used again when its unlocks have left, also those that abort, before all are answered */
#define REUSED_COMMITTED 44   /* the same, only those that commit */
#define PAIR_HIDDEN 45        /* PAIR: its reads are compared by version only, whatever lock and flag say */
#define PAIR_ONE_LOOK 46      /* PAIR: nobody looks whether its reads still hold */
#define SHIP_ABORT 47         /* hop: a coordinator aborts what it has shipped and the executor has logged */
#define EXECUTOR_FORGETS 48   /* hop: the executor's record counts only the writes of its own keys */
#define TOLD_BEFORE_SHIPPED 49 /* hop: told when all backups have answered, before the executor's word */
#define READ_UNLOCKED 50      /* hop: keys that a coordinator only reads are not locked when it ships */
#define LOG_FINISHES_NOTHING 51 /* hop, SLOT: a log that comes from an executor and overtakes a notice is answered, and not kept */

#define SETTLES_AGAIN (BUG == RESETTLES || BUG == HANDLES_EARLY || BUG == UNDO_UNCHECKED || BUG == NOT_WRITTEN)
#define N (F + 2)
#define R (F + 1)
#define ALL ((1 << N) - 1)
#define B(n) (1 << (n))

/* Coverage: models/run wants every mark of its row hit. Not part of the state. */
#ifdef COVER
c_decl {
static unsigned long long weft_cov[64];
static unsigned char weft_placements[1024];
__attribute__((destructor)) static void weft_cov_print(void) {
  int i, n = 0;
  for (i = 0; i < 1024; ++i) n += weft_placements[i];
  printf("placements: %d\n", n);
  printf("marks:");
  for (i = 0; i < 64; ++i) if (weft_cov[i]) printf(" %d", i);
  printf("\n");
}
}
#define MARK(i) c_code { weft_cov[i]++; }
#else
#define MARK(i) skip
#endif

/* A transaction at its coordinator. */
#define IDLE 0
#define EXEC 1      /* has read, will commit */
#define LOCKING 2
#define VALIDATING 3
#define REPLICATING 4
#define UNLOCKING 5 /* past the commit point */
#define ABORTING 6
#define DONE 7      /* notices are out: raise and truncate */
#define OVER 8

/* A participant's record. */
#define LOCKED 1
#define REPLICATED 2
#define COMMITTED 4
#define DECIDED 8    /* recovery has written its decision, and with it all new values */
#define SETTLED_HERE 16 /* and has applied it here: never again */
#define IN_RING 32      /* a log entry that has landed, and that no CPU has looked at */

/* Outcomes and decisions. */
#define NONE 0
#define COMMIT 1
#define ABORT 2

/* A node. */
#define ACTIVE 0
#define STOPPED 1 /* has adopted the epoch; its records and its coordinators' state are with the leader */
#define WRITTEN 2 /* has the decisions */
#define APPLIED 3

/* The leader of an epoch. */
#define COLLECTS 0
#define WRITES 1
#define APPLIES 2
#define ACTIVATES 3

/* Placement, chosen once. Key 0 is x, 1 is y; the first replica is the primary. */
byte rp[2 * R];
byte rm[2];
byte co[NT];

/* Replicas, by key * N + node: who wrote last (0: nobody), version, lock owner (0: none), readable flag lowered. */
byte wr[2 * N];
byte ver[2 * N];
byte lk[2 * N];
bit low[2 * N];
#if SWAPS
bit half[2 * N]; /* of a commit by WRITEs, the first has landed and the second has not */
#endif

/* Records, by t * N + node; uw: what the applied write replaced, by (t * N + node) * 2 + key. */
byte rec[NT * N];
byte mark[NT * N]; /* decision written, or outcome remembered after truncation */
byte uw[NT * N * 2];

/* Coordinators. */
byte ph[NT];
byte mph[NT];   /* phase of the messages under way */
byte pend[NT];  /* nodes they have not reached */
#define LOST 128 /* one of them will never be handled */
byte lockd[NT]; /* nodes that locked */
bit nack[NT];
byte nb[NT * 2]; /* base version of a written key; the new one is one more */
#if SWAPS
byte rv[NT * 2]; /* versions read: a CAS needs them of what is written too */
bit unread[NT];  /* the second key is still to be read */
bit wsaw[NT];    /* as rsaw, of the second */
#define RV(T, k) rv[(T) * 2 + (k)]
#else
byte rv[NT];     /* version read */
#define RV(T, k) rv[T]
#endif
bit rsaw[NT];    /* it was the other transaction's */
#if BUG == UNLOCK_EARLY
byte late[NT];   /* nodes that the log has not reached */
#endif
byte told[NT];
byte tep[NT];
#if SHIPS
bit shp[NT];     /* it was shipped */
#define SHIPPED(t) shp[t]
#else
#define SHIPPED(t) 0
#endif
#if BUG == EXECUTOR_FORGETS
byte missing[NT]; /* keys whose value a decision to commit does not have */
#endif

/* Membership and recovery. */
byte dead;
#if LIVES
byte gone;       /* removed: dead, or soon */
#else
#define gone dead
#endif
byte ep;         /* newest view */
byte mem[VIEWS + 1];
byte nep[N];     /* adopted */
byte st[N];
byte lst[VIEWS + 1];
byte ack[VIEWS + 1];
#if LIVES && VIEWS == 2
byte dec[NT * (VIEWS + 1)]; /* who is removed and alive still goes by an epoch's after the next one's are there */
#define DEC(t, e) dec[(t) * (VIEWS + 1) + (e)]
#else
byte dec[NT];
#define DEC(t, e) dec[t]
#endif

/* What single reads could have seen: reading is possible at any moment, so what can be served counts as served. */
bit seen[NT];
#if NEXT_USE
bit evr[NT]; /* decided to commit because it is finished: all have it, so the decision brings no values (of one view: not for LIVES with VIEWS 2) */
#endif
#if PAIR
/* The pair: how far it is (0 to 4 looks, 5 over), where, the first key it looks at, versions read, and as bits of
 * transactions: whose writes of key k it has seen, and who was seen or told committed when it began. */
byte pph;
byte pn;
bit pfirst;
byte pver[2];
byte psaw[2];
byte pbefore;
byte pep;
#endif
bit edge[2]; /* edge[t]: the other one comes before t, because of real time or of a single read */

/* Scratch, not part of the state. */
hidden byte vk, vn, vt, vm, ve, vo;
hidden byte tgt;
hidden byte step, aT, aM, aE;
hidden byte aL; /* transactions that the leader aborts because their coordinator lives and is not past its commit point */
hidden byte ok, any, all, cin, com0, com1, f01, f10;

#define X(k, n) ((k) * N + (n))
#define Q(t, n) ((t) * N + (n))
#define U(t, n, k) (((t) * N + (n)) * 2 + (k))
#define ALIVE(n) (!(dead & B(n)))
#if SLOT
#define OWNER(t) 1 /* a lock names the slot, not the transaction */
#else
#define OWNER(t) ((t) + 1)
#endif

#if BOTH
#define IN_W(t, k) 1
#else
#define IN_W(t, k) ((k) != (t))
#endif
#if SWAPS && !MIXED
#define IN_R(t, k) 1
#else
#define IN_R(t, k) ((k) == (t))
#endif
#define ONLY_R(t, k) (IN_R(t, k) && !IN_W(t, k))

#if F == 1
#define PRIM(k, e) ((mem[e] & B(rp[(k)*R])) -> rp[(k)*R] : rp[(k)*R + 1])
#else
#define PRIM(k, e) ((mem[e] & B(rp[(k)*R])) -> rp[(k)*R] : ((mem[e] & B(rp[(k)*R + 1])) -> rp[(k)*R + 1] : rp[(k)*R + 2]))
#endif
#define WHOLE(k, e) (rm[k] & mem[e])
#define LEADER(e) ((mem[e] & 1) -> 0 : ((mem[e] & 2) -> 1 : 2))

/* Whether t's write of key k is in the replica at n: it is the last one, or under the other's. */
#define HAS(t, k, n) (wr[X(k, n)] == (t) + 1 || ver[X(k, n)] > nb[(t)*2 + (k)] + 1)

/* get_one: a primary that is not write-locked; where reads are locked, also a readable backup that is not. */
#if NEXT_USE
#define HOLDER(k, n) ((rec[Q(1, n)] & LOCKED) -> 1 : 0) /* one record of a slot at a time */
#else
#define HOLDER(k, n) (lk[X(k, n)] - 1)
#endif
#define WLOCKED(k, n) (lk[X(k, n)] != 0 && IN_W(HOLDER(k, n), k))
#define SERVING(n) (ALIVE(n) && SERVES_AT(n))
#if BUG == SERVES_EARLY
#define SERVES_AT(n) (st[n] == ACTIVE || st[n] >= WRITTEN)
#elif RINGS
/* By READ: somebody active in the node's view reads, the node itself may still have to hear that it is. */
#define READER(m, n) (ALIVE(m) && st[m] == ACTIVE && nep[m] == nep[n])
#if F == 1
#define SERVES_AT(n) (st[n] == ACTIVE || (st[n] == APPLIED && (READER(0, n) || READER(1, n) || READER(2, n))))
#else
#define SERVES_AT(n) (st[n] == ACTIVE || (st[n] == APPLIED && (READER(0, n) || READER(1, n) || READER(2, n) || READER(3, n))))
#endif
#else
#define SERVES_AT(n) (st[n] == ACTIVE)
#endif
#if !LOCKS_READS && BUG != BACKUP_SERVES
#define SERVED(k, n) (SERVING(n) && PRIM(k, nep[n]) == (n) && !WLOCKED(k, n))
#else
#define SERVED(k, n) (SERVING(n) && (WHOLE(k, nep[n]) & B(n)) && !WLOCKED(k, n) && (PRIM(k, nep[n]) == (n) || !low[X(k, n)]))
#endif

#define SAW1(t, k, n) (IN_W(t, k) && SERVED(k, n) && HAS(t, k, n))
#define MISSED1(t, k, n) (IN_W(t, k) && SERVED(k, n) && !HAS(t, k, n))
#if F == 1
#define SAW(t) (SAW1(t,0,0) || SAW1(t,0,1) || SAW1(t,0,2) || SAW1(t,1,0) || SAW1(t,1,1) || SAW1(t,1,2))
#define MISSED(t) (MISSED1(t,0,0) || MISSED1(t,0,1) || MISSED1(t,0,2) || MISSED1(t,1,0) || MISSED1(t,1,1) || MISSED1(t,1,2))
#else
#define SAW(t) (SAW1(t,0,0) || SAW1(t,0,1) || SAW1(t,0,2) || SAW1(t,0,3) || SAW1(t,1,0) || SAW1(t,1,1) || SAW1(t,1,2) || SAW1(t,1,3))
#define MISSED(t) (MISSED1(t,0,0) || MISSED1(t,0,1) || MISSED1(t,0,2) || MISSED1(t,0,3) || MISSED1(t,1,0) || MISSED1(t,1,1) || MISSED1(t,1,2) || MISSED1(t,1,3))
#endif

/* After every step: what a single read could see now. Seeing t and then missing it, or missing it after it was told,
 * is a contradiction at once; missing t after the other one was seen or told puts t behind it. */
inline watch() {
  seen[0] = seen[0] || SAW(0);
#if NT == 2
  seen[1] = seen[1] || SAW(1);
#endif
  if
  :: MISSED(0) ->
    assert(!seen[0]);           /* a single read does not go back */
    assert(told[0] != COMMIT);  /* nor miss what was told */
#if NT == 2
    edge[0] = edge[0] || seen[1] || told[1] == COMMIT;
#endif
  :: else
  fi;
#if NT == 2
  if
  :: MISSED(1) ->
    assert(!seen[1]);
    assert(told[1] != COMMIT);
    edge[1] = edge[1] || seen[0] || told[0] == COMMIT;
  :: else
  fi;
  assert(!(seen[1] && told[1] == ABORT));
#endif
  assert(!(seen[0] && told[0] == ABORT)); /* what was told aborted is never served */
}

/* The pair reads both keys at one replica, then looks whether both are still what it has read (rule G7). It commits if
 * they are; its node is active and in the same epoch all the time. */
#if PAIR
#define PKEY ((pph % 2) -> 1 - pfirst : pfirst)
#define PAIR_HAS(n) (rm[0] & rm[1] & B(n))
#define PAIR_BEGINS(n) (pph == 0 && PAIR_HAS(n) && SERVING(n))
#define PAIR_GOES_ON (pph > 0 && pph < 5)
#define PAIR_SEES(k) ((HAS(0, k, pn) && IN_W(0, k) -> 1 : 0) | (HAS(1, k, pn) && IN_W(1, k) -> 2 : 0))
#if BUG == PAIR_HIDDEN
#define PAIR_SERVED(k) (SERVING(pn) && (WHOLE(k, nep[pn]) & B(pn)))
#else
#define PAIR_SERVED(k) SERVED(k, pn)
#endif

inline pair_read(K) {
  pver[K] = ver[X(K, pn)];
  psaw[K] = PAIR_SEES(K);
  printf("pair: reads key %d at node %d: version %d, has seen %d\n", K, pn, pver[K], psaw[K])
}

/* D has seen t, or comes before t. */
inline pair_orders(t) {
  vo = (psaw[0] | psaw[1]) & B(t);
  assert(!BOTH || !((psaw[0] ^ psaw[1]) & B(t))); /* all writes of a transaction, or none */
  if
  :: vo ->
    MARK(37);
    assert(told[t] != ABORT); /* never what was told aborted */
    seen[t] = 1
  :: else ->
    assert(!(pbefore & B(t))); /* nor misses what was told or seen before it began */
    if
    :: ((psaw[0] | psaw[1] | pbefore) & B(1 - t)) -> MARK(38); edge[t] = 1
    :: else
    fi
  fi
}

inline pair_step() {
  vk = PKEY;
  if
  :: nep[pn] != pep || !PAIR_SERVED(vk) || (pph >= 2 && ver[X(vk, pn)] != pver[vk] && BUG != PAIR_ONE_LOOK) -> pph = 5
  :: else ->
    if
    :: pph < 2 -> pair_read(vk)
    :: else
    fi;
    pph++;
    if
    :: pph == 4 ->
      printf("pair: commits\n");
      pair_orders(0);
      pair_orders(1);
      pph = 5
    :: else
    fi
  fi;
  if
  :: pph == 5 -> pver[0] = 0; pver[1] = 0; psaw[0] = 0; psaw[1] = 0; pbefore = 0; pn = 0; pep = 0; pfirst = 0
  :: else
  fi
}

inline pair_begin(M, first) {
  pn = M;
  pep = nep[M];
  pfirst = first;
  pbefore = (seen[0] || told[0] == COMMIT -> 1 : 0) | (seen[1] || told[1] == COMMIT -> 2 : 0);
  pair_step()
}
#endif

inline tell(T, outcome) {
  assert(told[T] == NONE || told[T] == outcome); /* nobody is told twice, differently */
  if
  :: told[T] == NONE ->
    if :: outcome == COMMIT && (gone & B(co[T])) && ALIVE(co[T]) -> MARK(7) :: else fi;
    printf("T%d: the client is told: %d (1 commit, 2 abort)\n", T, outcome)
  :: else
  fi;
  told[T] = outcome;
}

/* ---- The coordinator ---- */

/* Where the log of a written key goes. */
#if BUG == K2_COUNTED
#define LOG_AT(T, k) ((WHOLE(k, tep[T]) & B(co[T])) -> WHOLE(k, tep[T]) : (WHOLE(k, tep[T]) & ~B(PRIM(k, tep[T]))))
#elif LOGS_PRIMARY && BUG != LOG_MISSES_PRIMARY
#define LOG_AT(T, k) WHOLE(k, tep[T])
#elif LOCKS_FIRST && BUG != LOG_MISSES_PRIMARY
/* To the primary too if the coordinator is a backup, or if there is another primary. */
#define LOG_AT(T, k) (((WHOLE(k, tep[T]) & B(co[T])) && PRIM(k, tep[T]) != co[T]) || (BOTH && PRIM(0, tep[T]) != PRIM(1, tep[T])) -> WHOLE(k, tep[T]) : (WHOLE(k, tep[T]) & ~B(PRIM(k, tep[T]))))
#elif LOGS_PRIMARY
#define LOG_AT(T, k) (WHOLE(k, tep[T]) & (B(co[T]) | ~B(PRIM(k, tep[T]))))
#else
#define LOG_AT(T, k) (WHOLE(k, tep[T]) & ~B(PRIM(k, tep[T])))
#endif

/* Where a phase goes, into tgt. */
inline targets(T, phase) {
  tgt = 0;
  vk = 0;
  do
  :: vk < 2 ->
    if
    :: phase == LOCKING ->
#if LOCKS_ALL
      tgt = tgt | WHOLE(vk, tep[T]);  /* both keys are in R or W */
#elif LOCKS_READS
      tgt = tgt | B(PRIM(vk, tep[T]));
#else
      if :: IN_W(T, vk) -> tgt = tgt | B(PRIM(vk, tep[T])) :: else fi;
#endif
    :: phase == VALIDATING ->
      if :: ONLY_R(T, vk) -> tgt = tgt | B(PRIM(vk, tep[T])) :: else fi;
    :: phase == REPLICATING ->
      if
      :: IN_W(T, vk) ->
#if LOGS
        tgt = tgt | LOG_AT(T, vk);
#endif
      :: else
      fi;
    :: else
    fi;
    vk++
  :: else -> break
  od
}

inline enter(T, phase) {
  ph[T] = phase;
  mph[T] = phase;
  targets(T, phase);
  pend[T] = tgt;
}

#define IS_LATE (2 - LATE)
/* A slot is used again when all have acknowledged. Where its next use truncates, a notice comes at any time or never,
 * and never after that. Else the notices have left before. They may be overtaken by verbs, not by messages. */
#if NEXT_USE
#if BUG == REUSED_UNACKED
#define SLOT_FREE(T) (T == 0 || ph[0] >= UNLOCKING)
#elif BUG == REUSED_COMMITTED
#define SLOT_FREE(T) (T == 0 || ph[0] == UNLOCKING || ph[0] == DONE || ph[0] == OVER)
#else
#define SLOT_FREE(T) (T == 0 || ph[0] == DONE || ph[0] == OVER)
#endif
#define IN_TURN(T, n) (T == 0 || mph[0] == DONE || !(pend[0] & B(n)))
/* Something else than a conflict aborts T0: its client, or its time has run out. */
#define CAN_GIVE_UP(T) (T == 0 && ph[T] == LOCKING && !nack[T] && RUNS(T))
#elif SLOT
#define SLOT_FREE(T) (T == 0 || ph[0] == DONE || ph[0] == OVER)
#define IN_TURN(T, n) (T == 0 || !(pend[0] & B(n)))
#else
#define SLOT_FREE(T) 1
#define IN_TURN(T, n) 1
#endif
#define CAN_BEGIN(T) (SLOT_FREE(T) && ph[T] == IDLE && ALIVE(co[T]) && st[co[T]] == ACTIVE && (LATE == 0 || T != IS_LATE || nep[co[T]] > 0))
#if RINGS
/* Backups lag: at the primary (rule G6), by READ. A record that is half-written shows, and is read again. */
#define READS_AT(T, k) PRIM(k, nep[co[T]])
#define LETS_READ(T, k) (st[READS_AT(T, k)] == ACTIVE || st[READS_AT(T, k)] == APPLIED)
#else
#define READS_AT(T, k) ((WHOLE(k, nep[co[T]]) & B(co[T])) && !(LOCKS_FIRST && IN_W(T, k)) -> co[T] : PRIM(k, nep[co[T]]))
#define LETS_READ(T, k) (st[READS_AT(T, k)] == ACTIVE)
#endif
#if SWAPS
#define IS_WHOLE(k, n) (!half[X(k, n)])
#else
#define IS_WHOLE(k, n) 1
#endif
#define CAN_READ(T, k) (ALIVE(READS_AT(T, k)) && nep[READS_AT(T, k)] == nep[co[T]] && LETS_READ(T, k) && IS_WHOLE(k, READS_AT(T, k)))
#define CAN_READ_ON(T) (ph[T] == EXEC && unread[T] && RUNS(T) && CAN_READ(T, 1 - (T)))

/* Key T is what T reads. At its own replica, else at the primary, whatever lock and flag say. */
inline begin(T) {
  tep[T] = nep[co[T]];
#if NT == 2
  if :: told[1 - T] == COMMIT -> edge[T] = 1 :: else fi;
#endif
#if LOCKS_FIRST
  enter(T, LOCKING)
#else
  ph[T] = EXEC;
  read(T)
#endif
}

inline read(T) {
  vm = READS_AT(T, T);
  RV(T, T) = ver[X(T, vm)];
#if SWAPS && !MIXED
  unread[T] = 1;
#endif
  rsaw[T] = (wr[X(T, vm)] != 0 && wr[X(T, vm)] != T + 1);
  printf("T%d: coordinator %d reads key %d at node %d: version %d, epoch %d\n", T, co[T], T, vm, RV(T, T), tep[T]);
}

#if SWAPS
inline read_on(T) {
  vm = READS_AT(T, 1 - T);
  unread[T] = 0;
  RV(T, 1 - T) = ver[X(1 - T, vm)];
  wsaw[T] = (wr[X(1 - T, vm)] != 0 && wr[X(1 - T, vm)] != T + 1);
  printf("T%d: coordinator %d reads key %d at node %d: version %d\n", T, co[T], 1 - T, vm, RV(T, 1 - T));
}
#define HAS_READ(T) (!unread[T])
#elif LOCKS_FIRST
#define HAS_READ(T) (ph[T] != EXEC || CAN_READ(T, T))
#else
#define HAS_READ(T) 1
#endif
#if LOCKS_FIRST
#define MAY_BEGIN(T) CAN_BEGIN(T)
#else
#define MAY_BEGIN(T) (CAN_BEGIN(T) && CAN_READ(T, T))
#endif

/* Shipped: all keys that the coordinator is not the primary of have one primary, which executes it. */
#define SHIPPABLE(T, e) ((PRIM(0, e) != co[T] || PRIM(1, e) != co[T]) && (PRIM(0, e) == co[T] || PRIM(1, e) == co[T] || PRIM(0, e) == PRIM(1, e)))
#define EXECUTOR(T) (PRIM(0, tep[T]) != co[T] -> PRIM(0, tep[T]) : PRIM(1, tep[T]))
#define CAN_SHIP(T) (CAN_BEGIN(T) && SHIPPABLE(T, nep[co[T]]))

#define RUNS(T) (ALIVE(co[T]) && st[co[T]] == ACTIVE && nep[co[T]] == tep[T])
#if BUG == UNLOCK_EARLY
#define GOES_ON(T) (ph[T] == REPLICATING || (pend[T] == 0 && (ph[T] != UNLOCKING || late[T] == 0)))
#else
#define GOES_ON(T) (pend[T] == 0)
#endif
#define CAN_ADVANCE(T) (ph[T] >= EXEC && ph[T] <= ABORTING && RUNS(T) && GOES_ON(T) && HAS_READ(T))

#if BUG == TOLD_EARLY && LOGS && !LOGS_PRIMARY
#define TELLS_EARLY(T) (ph[T] == REPLICATING && pend[T] == 0)
#elif BUG == TOLD_EARLY && LOGS
/* The primaries' answers are not waited for. */
#define TELLS_EARLY(T) (ph[T] == REPLICATING && (pend[T] & ~(B(PRIM(0, tep[T])) | B(PRIM(1, tep[T])))) == 0)
#elif BUG == TOLD_EARLY && LOCKS_ALL
/* The backups' locks are not waited for. */
#define TELLS_EARLY(T) (ph[T] == LOCKING && !nack[T] && (pend[T] & (B(PRIM(0, tep[T])) | B(PRIM(1, tep[T])))) == 0)
#elif BUG == TOLD_BEFORE_SHIPPED
#define TELLS_EARLY(T) (SHIPPED(T) && ph[T] == REPLICATING && mph[T] == REPLICATING && pend[T] == B(co[T]))
#endif
#if BUG == SHIP_ABORT
/* The logs that are under way are lost, which makes it harder to find. */
#define CAN_GIVE_UP(T) (SHIPPED(T) && ph[T] == REPLICATING && mph[T] == REPLICATING && pend[T] != 0 && RUNS(T))
#endif

inline abort_now(T) {
#if LOCKS_ALL && BUG != ABORT_AT_ONCE
  if
  :: lockd[T] == 0 -> tell(T, ABORT)
  :: else
  fi;
#else
  tell(T, ABORT);
#endif
  ph[T] = ABORTING;
  mph[T] = ABORTING;
  pend[T] = lockd[T];
  if :: pend[T] == 0 -> ph[T] = OVER :: else fi;
  MARK(1);
}

inline unlock_now(T) {
#if !CLIENTS
  audit(T, 0);
  audit(T, 1);
#endif
  ph[T] = UNLOCKING;
  mph[T] = UNLOCKING;
  pend[T] = lockd[T];
}

/* All answers of the phase are in. */
inline advance(T) {
  printf("T%d: coordinator %d goes on from phase %d\n", T, co[T], ph[T]);
  if
#if LOCKS_FIRST
  :: ph[T] == EXEC -> read(T); enter(T, VALIDATING)
#else
  :: ph[T] == EXEC -> enter(T, LOCKING)
#endif
  :: ph[T] == LOCKING ->
    if
    :: nack[T] -> abort_now(T)
    :: else ->
#if LOCKS_FIRST
      ph[T] = EXEC
#elif VALIDATES
      enter(T, VALIDATING)
#elif LOGS
      enter(T, REPLICATING)
#else
      tell(T, COMMIT);
      unlock_now(T)
#endif
    fi
#if VALIDATES
  :: ph[T] == VALIDATING ->
    if
    :: nack[T] -> abort_now(T)
    :: else -> enter(T, REPLICATING)
    fi
#endif
#if LOGS
#if SHIPS
  :: ph[T] == REPLICATING && nack[T] -> abort_now(T) /* the executor has refused, and logged nothing */
#endif
  :: ph[T] == REPLICATING && !(SHIPS && nack[T]) ->
#if BUG == UNLOCK_EARLY
    late[T] = pend[T];
#elif LOGS_PRIMARY || BUG == TOLD_EARLY
    tell(T, COMMIT);
#endif
    if :: SHIPPED(T) -> MARK(39) :: else fi;
    unlock_now(T)
#endif
  :: ph[T] == UNLOCKING ->
    tell(T, COMMIT);
    targets(T, REPLICATING);
    ph[T] = DONE;
    mph[T] = DONE;
    pend[T] = lockd[T] | tgt;
    MARK(2)
  :: ph[T] == ABORTING ->
    tell(T, ABORT);
    ph[T] = OVER
  fi
}

/* ---- A participant ---- */

#if BUG == OLD_EPOCH
#define EPOCH_OK(T, n) (nep[n] >= tep[T])
#else
#define EPOCH_OK(T, n) (nep[n] == tep[T])
#endif
#if BUG == HANDLES_EARLY || BUG == UNDO_UNCHECKED || BUG == HANDLES_APPLIED
#define HANDLES(n) (st[n] == ACTIVE || (st[n] == APPLIED && lst[nep[n]] == ACTIVATES))
#else
#define HANDLES(n) (st[n] == ACTIVE)
#endif
/* A verb needs no CPU: it lands where access is granted, from applying on until the next view is adopted. */
#if BUG == REVOKE_LATE
#define GRANTS(T, n) ((nep[n] == tep[T] && (st[n] == ACTIVE || st[n] == APPLIED)) || (nep[n] > tep[T] && (st[n] == STOPPED || st[n] == WRITTEN)))
#else
#define GRANTS(T, n) (nep[n] == tep[T] && (st[n] == ACTIVE || st[n] == APPLIED))
#endif
#if SWAPS
#define SWAPS_AT(T, n) (co[T] != (n) && !(MIXED && PRIM(1 - (T), tep[T]) == (n)))
#define BY_VERB(T, n) (mph[T] == VALIDATING || mph[T] == REPLICATING -> co[T] != (n) : (mph[T] != DONE && SWAPS_AT(T, n)))
#elif RINGS
#define BY_VERB(T, n) (co[T] != (n) && (mph[T] == VALIDATING || mph[T] == REPLICATING))
#else
#define BY_VERB(T, n) 0
#endif
#define CAN_DELIVER(T, n) ((pend[T] & B(n)) && ALIVE(n) && (BY_VERB(T, n) -> GRANTS(T, n) : (EPOCH_OK(T, n) && HANDLES(n) && IN_TURN(T, n))))
#define CAN_DRAIN(T, n) ((rec[Q(T, n)] & IN_RING) && ALIVE(n) && nep[n] == tep[T] && st[n] == ACTIVE && IS_NEXT(T, n))
#if SLOT
#define IS_NEXT(T, n) (T == 0 || !(rec[Q(0, n)] & IN_RING))
#else
#define IS_NEXT(T, n) 1
#endif
#define CAN_LOG(T, n) ((late[T] & B(n)) && ALIVE(n) && nep[n] == tep[T] && (co[T] != (n) && RINGS -> GRANTS(T, n) : HANDLES(n)))

/* Keys of T to lock at node n in its epoch. */
#if LOCKS_ALL
#define LOCKS(T, k, n) (WHOLE(k, tep[T]) & B(n))
#elif LOCKS_READS
#define LOCKS(T, k, n) (PRIM(k, tep[T]) == (n))
#elif SHIPS
/* Shipped: also what is only read, except by an executor that locks what it writes, which looks at the read after that. */
#define LOCKS(T, k, n) (PRIM(k, tep[T]) == (n) && (IN_W(T, k) || (SHIPPED(T) && PRIM(1 - (k), tep[T]) != (n) && !(BUG == READ_UNLOCKED && (n) == co[T]))))
#else
#define LOCKS(T, k, n) (IN_W(T, k) && PRIM(k, tep[T]) == (n))
#endif
#if BUG == NO_VALIDATION || LOCKS_FIRST
#define AS_READ(T, k, n) 1
#else
#define AS_READ(T, k, n) (!IN_R(T, k) || ver[X(k, n)] == RV(T, k))
#endif
#define LOCKABLE(T, k, n) (!LOCKS(T, k, n) || (lk[X(k, n)] == 0 && AS_READ(T, k, n)))
#define APPLIES_AT(T, k, n) (IN_W(T, k) && (WHOLE(k, tep[T]) & B(n)) && PRIM(k, tep[T]) != (n))
#define VALID(T, k, n) (!(ONLY_R(T, k) && PRIM(k, tep[T]) == (n)) || ((lk[X(k, n)] == 0 || lk[X(k, n)] == OWNER(T)) && ver[X(k, n)] == RV(T, k)))

inline lock_key(T, K, M) {
  if
  :: LOCKS(T, K, M) ->
    lk[X(K, M)] = OWNER(T);
    if
    :: IN_W(T, K) ->
#if LOCKS_ALL
      assert(lockd[T] == 0 || (lockd[T] & rm[K]) == 0 || nb[T * 2 + K] == ver[X(K, M)]); /* replicas agree on the base */
#endif
      nb[T * 2 + K] = ver[X(K, M)]
    :: else
    fi
  :: else
  fi
}

inline apply_key(T, K, M) {
  if
  :: APPLIES_AT(T, K, M) ->
    assert(ver[X(K, M)] == nb[T * 2 + K]); /* writes arrive in the order of their versions */
    uw[U(T, M, K)] = wr[X(K, M)];
    wr[X(K, M)] = T + 1;
    ver[X(K, M)] = nb[T * 2 + K] + 1;
#if BUG != FLAG_NOT_LOWERED && !NEXT_USE /* there, backups answer no single reads, or lock */
    low[X(K, M)] = 1
#endif
  :: else
  fi
}

inline commit_key(T, K, M) {
  if
  :: lk[X(K, M)] == OWNER(T) ->
    if
    :: IN_W(T, K) ->
      wr[X(K, M)] = T + 1;
      ver[X(K, M)] = nb[T * 2 + K] + 1
    :: else
    fi;
    lk[X(K, M)] = 0
  :: else
  fi
}

inline raise_key(T, K, M) {
  if
  :: low[X(K, M)] && APPLIES_AT(T, K, M) && wr[X(K, M)] == T + 1 && ver[X(K, M)] == nb[T * 2 + K] + 1 -> low[X(K, M)] = 0
  :: else
  fi
}

/* At a backup that lags: over an older version only, so in any order. */
inline install_key(T, K, M) {
  if
  :: APPLIES_AT(T, K, M) && ver[X(K, M)] <= nb[T * 2 + K] ->
    wr[X(K, M)] = T + 1;
    ver[X(K, M)] = nb[T * 2 + K] + 1
  :: else
  fi
}

#if NEXT_USE
/* T1 opens a record at M, or is refused one: T0's is finished. */
inline truncate_last(M) {
  if
  :: (rec[Q(0, M)] & COMMITTED) || ((rec[Q(0, M)] & REPLICATED) && !(rec[Q(0, M)] & LOCKED)) ->
    printf("T0: node %d truncates, because its slot is used again\n", M);
    MARK(26);
    rec[Q(0, M)] = 0;
#if BUG != NO_MARK
    mark[Q(0, M)] = COMMIT;
#endif
    uw[U(0, M, 0)] = 0;
    uw[U(0, M, 1)] = 0;
    if :: mph[0] == DONE -> pend[0] = pend[0] & ~B(M) :: else fi
  :: else
  fi;
  assert(rec[Q(0, M)] == 0) /* one record of a slot at a time */
}
#endif

/* An entry of M's ring becomes a record. */
inline take_entry(T, M) {
#if SLOT && RINGS
  if
  :: T == 1 && (rec[Q(0, M)] & (REPLICATED | COMMITTED)) -> /* the notice of the slot's last one is still on its way */
    MARK(25);
#if BUG != RING_OVERTAKES
    install_key(0, 0, M);
    install_key(0, 1, M);
#endif
    rec[Q(0, M)] = 0;
    mark[Q(0, M)] = COMMIT
  :: else
  fi;
#endif
  rec[Q(T, M)] = (rec[Q(T, M)] & ~IN_RING) | REPLICATED
}

inline drain(M) {
  if :: rec[Q(0, M)] & IN_RING -> take_entry(0, M) :: else fi;
#if NT == 2
  if :: rec[Q(1, M)] & IN_RING -> take_entry(1, M) :: else fi
#endif
}

inline log_lands(T, M) {
  printf("T%d: the log is in the ring of node %d\n", T, M);
  if
  :: nep[M] == tep[T] -> rec[Q(T, M)] = rec[Q(T, M)] | IN_RING
  :: else -> skip /* nobody looks for entries of a view that has ended */
  fi
}

#if SWAPS
/* Each key by itself, and nothing but the owner's name stays. */
inline swap_key(T, K, M) {
  if
  :: LOCKS(T, K, M) && LOCKABLE(T, K, M) ->
    lk[X(K, M)] = OWNER(T);
    nb[T * 2 + K] = ver[X(K, M)];
    lockd[T] = lockd[T] | B(M)
  :: LOCKS(T, K, M) && !LOCKABLE(T, K, M) ->
    MARK(3);
    nack[T] = 1
  :: else
  fi
}

/* The first of two WRITEs, or the second. */
inline write_key(T, K, M) {
  if
  :: !half[X(K, M)] ->
    printf("T%d: at node %d the first half of the commit of key %d lands\n", T, M, K);
    half[X(K, M)] = 1;
#if BUG == HALF_READ
    ver[X(K, M)] = nb[T * 2 + K] + 1;
    lk[X(K, M)] = 0
#else
    wr[X(K, M)] = T + 1
#endif
  :: else ->
    printf("T%d: at node %d the second half of the commit of key %d lands\n", T, M, K);
    half[X(K, M)] = 0;
#if BUG == HALF_READ
    wr[X(K, M)] = T + 1
#else
    MARK(5);
    ver[X(K, M)] = nb[T * 2 + K] + 1;
    lk[X(K, M)] = 0
#endif
  fi
}
#if BUG == HALF_READ
#define TO_WRITE(T, k, n) (LOCKS(T, k, n) && (lk[X(k, n)] == OWNER(T) || half[X(k, n)]))
#else
#define TO_WRITE(T, k, n) (lk[X(k, n)] == OWNER(T))
#endif

inline free_key(T, K, M) {
  if :: lk[X(K, M)] == OWNER(T) -> lk[X(K, M)] = 0 :: else fi
}
#endif

#if RINGS
inline land(T, M) {
  if :: !ALIVE(co[T]) -> MARK(8) :: else fi;
  if
  :: mph[T] == VALIDATING -> check_reads(T, M)
  :: mph[T] == REPLICATING -> log_lands(T, M)
#if SWAPS
  :: mph[T] == LOCKING ->
    printf("T%d: CAS at node %d\n", T, M);
    swap_key(T, 0, M);
    swap_key(T, 1, M)
  :: mph[T] == UNLOCKING ->
    if
    :: TO_WRITE(T, 0, M) -> write_key(T, 0, M)
    :: !(TO_WRITE(T, 0, M)) && TO_WRITE(T, 1, M) -> write_key(T, 1, M)
    :: else
    fi;
    if :: TO_WRITE(T, 0, M) || TO_WRITE(T, 1, M) -> pend[T] = pend[T] | B(M) :: else fi
  :: mph[T] == ABORTING ->
    printf("T%d: CAS back at node %d\n", T, M);
    free_key(T, 0, M);
    free_key(T, 1, M)
#endif
  fi
}
#endif

inline check_reads(T, M) {
#if BUG != NO_VALIDATION
  if
  :: VALID(T, 0, M) && VALID(T, 1, M) -> printf("T%d: what was read at node %d is valid\n", T, M)
  :: else ->
    printf("T%d: a read at node %d is invalid\n", T, M);
    MARK(4);
    nack[T] = 1
  fi
#else
  skip
#endif
}

inline deliver(T, M) {
  pend[T] = pend[T] & ~B(M);
#if RINGS
  if
  :: BY_VERB(T, M) -> land(T, M)
  :: else ->
#if BUG != NOTICE_FIRST
    drain(M);
#endif
    handle(T, M)
  fi
#else
  handle(T, M)
#endif
}

#if SHIPS
/* Of a key that it has read, and holds locked, or it is the executor. */
inline note_read(T, M) {
  if
  :: PRIM(T, tep[T]) == M ->
    rsaw[T] = (wr[X(T, M)] != 0 && wr[X(T, M)] != T + 1);
    printf("T%d: node %d reads key %d: version %d\n", T, M, T, ver[X(T, M)])
  :: else
  fi
}

/* The coordinator locks its keys and ships, in one step. */
inline ship(T) {
  tep[T] = nep[co[T]];
#if NT == 2
  if :: told[1 - T] == COMMIT -> edge[T] = 1 :: else fi;
#endif
  shp[T] = 1;
#if NEXT_USE
  if :: T == 1 && (LOCKS(T, 0, co[T]) || LOCKS(T, 1, co[T])) -> truncate_last(co[T]) :: else fi;
#endif
  if
  :: LOCKABLE(T, 0, co[T]) && LOCKABLE(T, 1, co[T]) ->
    printf("T%d: coordinator %d locks its keys and ships to node %d, epoch %d\n", T, co[T], EXECUTOR(T), tep[T]);
    lock_key(T, 0, co[T]);
    lock_key(T, 1, co[T]);
    if
    :: LOCKS(T, 0, co[T]) || LOCKS(T, 1, co[T]) ->
      lockd[T] = B(co[T]);
      rec[Q(T, co[T])] = LOCKED
    :: else
    fi;
    note_read(T, co[T]);
    ph[T] = REPLICATING; /* from now on it decides nothing */
    mph[T] = LOCKING;
    pend[T] = B(EXECUTOR(T))
  :: else ->
    printf("T%d: coordinator %d cannot lock its keys\n", T, co[T]);
    MARK(40);
    abort_now(T)
  fi
}

#define REPLICA_OF_WRITTEN(T, n) (((IN_W(T, 0) -> WHOLE(0, tep[T]) : 0) | (IN_W(T, 1) -> WHOLE(1, tep[T]) : 0)) & B(n))
/* What an executor only reads and does not lock: its last lock is taken in this step. */
#define UNLOCKED_READ(T, k, n) (!(ONLY_R(T, k) && PRIM(k, tep[T]) == (n)) || LOCKS(T, k, n) || lk[X(k, n)] == 0)

/* The executor locks, reads, checks, logs at itself and sends the logs, and its word to the coordinator, in one step. */
inline execute(T, M) {
  if
  :: LOCKABLE(T, 0, M) && LOCKABLE(T, 1, M) && UNLOCKED_READ(T, 0, M) && UNLOCKED_READ(T, 1, M) ->
    printf("T%d: node %d executes it\n", T, M);
    if :: !ALIVE(co[T]) -> MARK(42) :: else fi;
    if :: PRIM(0, tep[T]) == PRIM(1, tep[T]) -> MARK(43) :: else fi;
    if :: APPLIES_AT(T, 0, M) || APPLIES_AT(T, 1, M) -> MARK(44) :: else fi;
    lock_key(T, 0, M);
    lock_key(T, 1, M);
    lockd[T] = lockd[T] | B(M);
    note_read(T, M);
    apply_key(T, 0, M);
    apply_key(T, 1, M);
    rec[Q(T, M)] = (REPLICA_OF_WRITTEN(T, M) -> LOCKED | REPLICATED : LOCKED);
    targets(T, REPLICATING);
    mph[T] = REPLICATING;
    pend[T] = (tgt & ~B(M)) | B(co[T]);
#if LIVES
    /* The executor may be removed, and the others gone on. */
    vn = 0;
    do
    :: vn < N ->
      if :: (pend[T] & B(vn)) && nep[vn] > tep[T] -> pend[T] = (pend[T] & ~B(vn)) | LOST :: else fi;
      vn++
    :: else -> break
    od
#endif
  :: else ->
    printf("T%d: node %d refuses to execute it\n", T, M);
    MARK(41);
    nack[T] = 1
  fi
}

/* The executor's word is the log of the coordinator's own node, if that is a replica. */
inline shipped(T) {
  printf("T%d: coordinator %d has the executor's word\n", T, co[T]);
  if :: pend[T] == 0 -> MARK(45) :: else -> MARK(46) fi;
  if
  :: REPLICA_OF_WRITTEN(T, co[T]) ->
    if :: APPLIES_AT(T, 0, co[T]) || APPLIES_AT(T, 1, co[T]) -> MARK(47) :: else fi;
#if NEXT_USE
    if :: T == 1 -> truncate_last(co[T]) :: else fi;
#endif
    apply_key(T, 0, co[T]);
    apply_key(T, 1, co[T]);
    rec[Q(T, co[T])] = rec[Q(T, co[T])] | REPLICATED
  :: else
  fi
}
#endif

#define LOG_OF_EXECUTOR(T, n) (SHIPPED(T) && mph[T] == REPLICATING && co[T] != (n))
#if BUG == LOG_FINISHES_NOTHING
#define KEEPS_LAST(T, n) (T == 1 && LOG_OF_EXECUTOR(T, n) && rec[Q(0, n)])
#else
#define KEEPS_LAST(T, n) 0
#endif

inline handle(T, M) {
#if NEXT_USE && SHIPS
  if :: T == 1 && LOG_OF_EXECUTOR(T, M) && rec[Q(0, M)] -> MARK(50) :: else fi;
#endif
#if NEXT_USE
  if
  :: T == 1 && (mph[T] == LOCKING || mph[T] == REPLICATING) && !(SHIPPED(T) && M == co[T]) && !KEEPS_LAST(T, M) -> truncate_last(M)
  :: else
  fi;
#endif
  if
#if BUG == LOG_FINISHES_NOTHING
  :: KEEPS_LAST(T, M) -> printf("T%d: node %d answers a log, and keeps its record of T0\n", T, M)
#endif
#if SHIPS
  :: SHIPPED(T) && mph[T] == LOCKING -> execute(T, M)
  :: SHIPPED(T) && mph[T] == REPLICATING && M == co[T] -> shipped(T)
#endif
  :: mph[T] == LOCKING && !SHIPPED(T) ->
    if
    :: LOCKABLE(T, 0, M) && LOCKABLE(T, 1, M) ->
      printf("T%d: node %d locks\n", T, M);
      lock_key(T, 0, M);
      lock_key(T, 1, M);
      lockd[T] = lockd[T] | B(M);
#if BUG == NO_READ_RECORDS
      if :: (LOCKS(T, 0, M) && IN_W(T, 0)) || (LOCKS(T, 1, M) && IN_W(T, 1)) -> rec[Q(T, M)] = LOCKED :: else fi
#else
      rec[Q(T, M)] = LOCKED
#endif
    :: else ->
      printf("T%d: node %d refuses to lock\n", T, M);
      MARK(3);
      nack[T] = 1
    fi
#if VALIDATES
  :: mph[T] == VALIDATING -> check_reads(T, M)
#endif
#if LOGS
  :: mph[T] == REPLICATING && !(SHIPPED(T) && M == co[T]) && !KEEPS_LAST(T, M) ->
    printf("T%d: node %d replicates\n", T, M);
#if !RINGS
    apply_key(T, 0, M);
    apply_key(T, 1, M);
#endif
    rec[Q(T, M)] = rec[Q(T, M)] | REPLICATED
#endif
  :: mph[T] == UNLOCKING ->
    printf("T%d: node %d installs and unlocks\n", T, M);
    commit_key(T, 0, M);
    commit_key(T, 1, M);
    rec[Q(T, M)] = rec[Q(T, M)] | COMMITTED
  :: mph[T] == ABORTING ->
    printf("T%d: node %d unlocks, aborted\n", T, M);
    if :: lk[X(0, M)] == OWNER(T) -> lk[X(0, M)] = 0 :: else fi;
    if :: lk[X(1, M)] == OWNER(T) -> lk[X(1, M)] = 0 :: else fi;
    rec[Q(T, M)] = 0
  :: mph[T] == DONE ->
    printf("T%d: node %d raises and truncates\n", T, M);
#if NEXT_USE
    if :: T == 0 && ph[1] != IDLE -> MARK(27) :: else fi;
#endif
#if RINGS
    install_key(T, 0, M);
    install_key(T, 1, M);
#else
    raise_key(T, 0, M);
    raise_key(T, 1, M);
#endif
    rec[Q(T, M)] = rec[Q(T, M)] & IN_RING;
    uw[U(T, M, 0)] = 0;
    uw[U(T, M, 1)] = 0;
#if BUG != NO_MARK
    mark[Q(T, M)] = COMMIT
#endif
  fi
}

/* ---- Crash, view change, recovery ---- */

#define KEPT(k, n) (rm[k] & ~(gone | B(n)))
#define CAN_CRASH(n) (ep < VIEWS && !(gone & B(n)) && (VIEWS <= F || (KEPT(0, n) && KEPT(1, n))))
#define CAN_DIE(n) ((gone & B(n)) && ALIVE(n))

/* A view without n exists at once; who adopts it when is open. */
inline crash(M) {
#if LIVES
  printf("node %d is removed\n", M);
#else
  printf("node %d crashes\n", M);
#endif
  gone = gone | B(M);
  ep++;
  mem[ep] = ALL & ~gone;
#if !LIVES
  forget(M)
#endif
}

/* It has crashed, or its leases have run out: it tells and serves nothing any more. Its verbs may still land. */
inline die(M) {
  printf("node %d is dead\n", M);
  dead = dead | B(M);
  forget(M)
}

inline forget(M) {
  skip;
#if VIEWS == 1
  /* nobody will ask: fewer states that differ in nothing that matters */
  wr[X(0, M)] = 0; ver[X(0, M)] = 0; lk[X(0, M)] = 0; low[X(0, M)] = 0;
  wr[X(1, M)] = 0; ver[X(1, M)] = 0; lk[X(1, M)] = 0; low[X(1, M)] = 0;
  rec[Q(0, M)] = 0; mark[Q(0, M)] = 0; uw[U(0, M, 0)] = 0; uw[U(0, M, 1)] = 0;
#if NT == 2
  rec[Q(1, M)] = 0; mark[Q(1, M)] = 0; uw[U(1, M, 0)] = 0; uw[U(1, M, 1)] = 0;
#endif
#if SWAPS
  half[X(0, M)] = 0; half[X(1, M)] = 0;
#endif
#endif
}

#define CAN_ADOPT(n) (ALIVE(n) && nep[n] < ep && (mem[nep[n] + 1] & B(n)))

#if NT == 2
#define HAS_ENTRIES(n) ((rec[Q(0, n)] | rec[Q(1, n)]) & IN_RING)
#else
#define HAS_ENTRIES(n) (rec[Q(0, n)] & IN_RING)
#endif

/* Access is revoked, the rings are drained, and what is there then is reported: nothing lands in between. */
inline stop_verbs(M) {
#if BUG != DRAINS_ACTIVE
  if
  :: st[M] == APPLIED && HAS_ENTRIES(M) -> /* others were active, and have logged here */
    MARK(6);
    activate(M)
  :: else
  fi;
#endif
#if BUG == NOT_DRAINED || BUG == DRAINS_ACTIVE
  vt = 0;
  do
  :: vt < NT ->
    if
    :: (rec[Q(vt, M)] & IN_RING) && (BUG == NOT_DRAINED || st[M] != ACTIVE) -> rec[Q(vt, M)] = rec[Q(vt, M)] & ~IN_RING
    :: else
    fi;
    vt++
  :: else -> break
  od;
#endif
  if :: HAS_ENTRIES(M) -> MARK(9) :: else fi;
  drain(M);
#if BUG == FREES_EARLY
  lk[X(0, M)] = 0;
  lk[X(1, M)] = 0
#endif
}

inline adopt(M) {
#if RINGS
  stop_verbs(M);
#endif
  nep[M]++;
  printf("node %d adopts epoch %d\n", M, nep[M]);
  st[M] = STOPPED;
  ack[nep[M]] = ack[nep[M]] | B(M);
  vt = 0;
  do
  :: vt < NT ->
    if
    :: co[vt] == M && ph[vt] == EXEC -> /* still executing: aborts by epoch */
      tell(vt, ABORT);
      ph[vt] = OVER
    :: else
    fi;
    vt++
  :: else -> break
  od
}

#define LEADS(e) (ALIVE(LEADER(e)) && nep[LEADER(e)] == e)
#define CAN_DECIDE(e) (ep >= e && lst[e] == COLLECTS && LEADS(e) && ack[e] == mem[e])

/* Whether a participant takes part in t. */
#if LOCKS_ALL
#define TAKES_PART(t, n) ((WHOLE(0, tep[t]) | WHOLE(1, tep[t])) & B(n))
#elif LOCKS_READS
#define TAKES_PART(t, n) (((IN_W(t, 0) -> WHOLE(0, tep[t]) : B(PRIM(0, tep[t]))) | (IN_W(t, 1) -> WHOLE(1, tep[t]) : B(PRIM(1, tep[t])))) & B(n))
#elif SHIPS
#define TAKES_PART(t, n) (((IN_W(t, 0) -> WHOLE(0, tep[t]) : 0) | (IN_W(t, 1) -> WHOLE(1, tep[t]) : 0) | (SHIPPED(t) -> B(co[t]) | B(EXECUTOR(t)) : 0)) & B(n))
#else
#define TAKES_PART(t, n) (((IN_W(t, 0) -> WHOLE(0, tep[t]) : 0) | (IN_W(t, 1) -> WHOLE(1, tep[t]) : 0)) & B(n))
#endif

/* Whether node n has key k's new value: in its record, with a decision, or in its table when it has truncated. */
#if LOCKS_ALL
#define LOGGED(t, k, n) ((rec[Q(t, n)] & LOCKED) && (WHOLE(k, tep[t]) & B(n)))
#elif LOCKS_FIRST
#define LOGGED(t, k, n) (((rec[Q(t, n)] & REPLICATED) && (LOG_AT(t, k) & B(n))) || ((rec[Q(t, n)] & COMMITTED) && PRIM(k, tep[t]) == n))
#elif LOGS_PRIMARY
#define LOGGED(t, k, n) ((rec[Q(t, n)] & REPLICATED) && (LOG_AT(t, k) & B(n)))
#else
#define LOGGED(t, k, n) (((rec[Q(t, n)] & LOCKED) && PRIM(k, tep[t]) == n) || ((rec[Q(t, n)] & REPLICATED) && APPLIES_AT(t, k, n)))
#endif
#define TRUNCATED(t, k, n) (mark[Q(t, n)] == COMMIT && rec[Q(t, n)] == 0 && (WHOLE(k, tep[t]) & B(n)))
#if BUG == DECISION_ALONE
#define HOLDS(t, k, n) (LOGGED(t, k, n) || TRUNCATED(t, k, n))
#elif BUG == DECISION_OWN_KEYS
#define HOLDS(t, k, n) (LOGGED(t, k, n) || TRUNCATED(t, k, n) || ((rec[Q(t, n)] & DECIDED) && mark[Q(t, n)] == COMMIT && (WHOLE(k, tep[t]) & B(n))))
#else
#define HOLDS(t, k, n) (LOGGED(t, k, n) || TRUNCATED(t, k, n) || ((rec[Q(t, n)] & DECIDED) && mark[Q(t, n)] == COMMIT))
#endif

/* Rule K2: with those that are gone, a value is on more than f nodes, the coordinator counted once. */
inline audit(T, K) {
  if
  :: IN_W(T, K) ->
    vo = gone | B(co[T]);
    vn = 0;
    do
    :: vn < N ->
      if :: LOGGED(T, K, vn) || ((rec[Q(T, vn)] & IN_RING) && (LOG_AT(T, K) & B(vn))) -> vo = vo | B(vn) :: else fi;
      vn++
    :: else -> break
    od;
    assert((vo & 1) + (vo >> 1 & 1) + (vo >> 2 & 1) + (vo >> 3 & 1) > F)
  :: else
  fi
}

#if BUG == VALUES_UNCHECKED
#define VALUES 1
#elif BUG == EXECUTOR_FORGETS
/* Unless somebody else's record counts all writes. */
#define FORGOTTEN(k) (f01 && !f10 && PRIM(k, tep[vt]) != EXECUTOR(vt))
#define VALUES ((com0 || FORGOTTEN(0)) && (com1 || FORGOTTEN(1)))
#else
#define VALUES (com0 && com1)
#endif

/* A coordinator knows the values it has computed; those of what it has shipped, only as a replica. */
#define BRINGS_VALUES(t) (REPORTS(t) && !SHIPPED(t))
/* The coordinator has decided, and not yet forgotten. */
#define KNOWS(t) (ph[t] >= UNLOCKING && ph[t] <= DONE)
/* It reports the transaction in its slot unless that is finished. */
#if NEXT_USE
#define REPORTS(t) (ph[t] != DONE && !(t == 0 && ph[1] != IDLE))
#else
#define REPORTS(t) 1
#endif

/* One transaction, by what the members of epoch E have reported. */
inline decide_one(E) {
  DEC(vt, E) = NONE;
  cin = (mem[E] & B(co[vt])) != 0;
  vo = 0;                             /* all records' bits together */
  ve = NONE;                          /* a decision that is written */
  any = cin && REPORTS(vt) && ph[vt] >= LOCKING && ph[vt] <= ABORTING; /* is it open at all */
  all = 1;                           /* every surviving participant has LOCKED */
  com0 = (cin && BRINGS_VALUES(vt)) || !IN_W(vt, 0); /* the value of key 0 is at a survivor */
  com1 = (cin && BRINGS_VALUES(vt)) || !IN_W(vt, 1);
#if BUG == EXECUTOR_FORGETS
  f01 = 0; /* the executor has logged; somebody else has */
  f10 = 0;
#endif
#if NEXT_USE
  evr[vt] = 0;
#endif
  vn = 0;
  do
  :: vn < N ->
    if
    :: mem[E] & B(vn) ->
      vo = vo | rec[Q(vt, vn)];
      any = any || rec[Q(vt, vn)];
#if BUG == DECIDES_ANEW
      if :: mark[Q(vt, vn)] != NONE && !(rec[Q(vt, vn)] & DECIDED) -> ve = mark[Q(vt, vn)] :: else fi;
#else
      assert(ve == NONE || mark[Q(vt, vn)] == NONE || mark[Q(vt, vn)] == ve); /* what is written does not differ */
      if :: mark[Q(vt, vn)] != NONE -> ve = mark[Q(vt, vn)] :: else fi;
#endif
#if NEXT_USE
      if
      :: mark[Q(vt, vn)] == COMMIT && rec[Q(vt, vn)] == 0 -> evr[vt] = 1
      :: vt == 0 && mark[Q(1, vn)] != NONE && !(rec[Q(1, vn)] & DECIDED) -> MARK(28); evr[vt] = 1 /* a later one is finished */
      :: else
      fi;
#endif
#if BUG == ASKS_WRITERS
      if
      :: TAKES_PART(vt, vn) && !(rec[Q(vt, vn)] & LOCKED) && ((IN_W(vt, 0) && (rm[0] & B(vn))) || (IN_W(vt, 1) && (rm[1] & B(vn)))) -> all = 0
      :: else
      fi;
#else
      if :: TAKES_PART(vt, vn) && !(rec[Q(vt, vn)] & LOCKED) -> all = 0 :: else fi;
#endif
#if BUG == EXECUTOR_FORGETS
      if
      :: SHIPPED(vt) && (rec[Q(vt, vn)] & REPLICATED) && vn == EXECUTOR(vt) -> f01 = 1
      :: (rec[Q(vt, vn)] & REPLICATED) && !(SHIPPED(vt) && vn == EXECUTOR(vt)) -> f10 = 1
      :: else
      fi;
#endif
      com0 = com0 || HOLDS(vt, 0, vn);
      com1 = com1 || HOLDS(vt, 1, vn);
    :: else
    fi;
    vn++
  :: else -> break
  od;
#if BUG == IGNORE_COMMITTED
  vo = vo & ~COMMITTED;
#endif
#if BUG == IGNORE_REPLICATED
  vo = vo & ~REPLICATED;
#endif
#if NEXT_USE
  if
  :: any && ve == NONE && cin && !REPORTS(vt) -> MARK(29); evr[vt] = 1
  :: else
  fi;
  if :: !any -> evr[vt] = 0 :: else fi;
  if :: ve == NONE && evr[vt] -> ve = COMMIT :: else fi;
#endif
  if
  :: !any -> skip
  :: else ->
    if
    :: ve != NONE -> MARK(10); DEC(vt, E) = ve
    :: ve == NONE && cin && (ph[vt] == UNLOCKING || ph[vt] == DONE) -> MARK(11); DEC(vt, E) = COMMIT
    :: ve == NONE && cin && ph[vt] == ABORTING -> MARK(12); DEC(vt, E) = ABORT
    :: ve == NONE && !(cin && KNOWS(vt)) && (vo & COMMITTED) -> MARK(13); DEC(vt, E) = COMMIT
    :: ve == NONE && cin && ph[vt] < UNLOCKING && !(vo & COMMITTED) && (aL & B(vt)) -> MARK(14); DEC(vt, E) = ABORT
    :: ve == NONE && !(cin && KNOWS(vt)) && !(vo & COMMITTED) && !(aL & B(vt)) ->
#if LOCKS_ALL
      if
      :: all -> MARK(15); DEC(vt, E) = COMMIT
      :: else -> MARK(16); DEC(vt, E) = ABORT
      fi
#else
      if
      :: (vo & REPLICATED) && VALUES ->
        MARK(17);
        if :: SHIPPED(vt) && !cin -> MARK(48) :: else fi;
        DEC(vt, E) = COMMIT
      :: (vo & REPLICATED) && !VALUES ->
        MARK(18);
        if :: SHIPPED(vt) && !cin -> MARK(49) :: else fi;
        DEC(vt, E) = ABORT
      :: !(vo & REPLICATED) -> MARK(19); DEC(vt, E) = ABORT
      fi
#endif
    fi;
#if BUG == EXECUTOR_FORGETS
    missing[vt] = (com0 -> 0 : 1) | (com1 -> 0 : 2);
#endif
#if !CLIENTS
    assert(DEC(vt, E) != COMMIT || (com0 && com1)); /* what is committed can be installed */
#endif
    printf("epoch %d: the leader decides T%d: %d (1 commit, 2 abort); records %d, coordinator lives %d, its phase %d\n", E, vt, DEC(vt, E), vo, cin, ph[vt])
  fi
}

#define GOES_BY(e) (gone & ~dead & ~mem[e])

/* With a coordinator that lives and is not past its commit point the leader may look at the records as if it were gone,
 * or abort: both are tried, for each transaction and epoch. */
inline decide(E) {
  vt = 0;
  do
  :: vt < NT ->
    decide_one(E);
#if BUG != OLD_EPOCH && BUG != REVOKE_LATE
    /* No member will handle them, only who is removed and alive; a coordinator that is waits for the others in vain. */
    vo = pend[vt] & ~GOES_BY(E);
    pend[vt] = (tep[vt] < E -> ((pend[vt] & GOES_BY(E)) | (vo && (GOES_BY(E) & B(co[vt])) -> LOST : 0)) : pend[vt]);
#endif
    vt++
  :: else -> break
  od;
  lst[E] = WRITES;
  ack[E] = 0
}

#if BUG == WRITES_LITTLE
#define ENOUGH(e) (ack[e] != 0)
#else
#define ENOUGH(e) (ack[e] == mem[e])
#endif
#define CAN_ORDER_APPLY(e) (ep >= e && lst[e] == WRITES && LEADS(e) && ENOUGH(e))
#define CAN_ORDER_ACTIVE(e) (ep >= e && lst[e] == APPLIES && LEADS(e) && ack[e] == mem[e])
#if BUG == WRITES_LITTLE
#define CAN_APPLY(n) (ALIVE(n) && (st[n] == WRITTEN || st[n] == STOPPED) && lst[nep[n]] >= APPLIES && FENCED(n))
#else
#define CAN_APPLY(n) (ALIVE(n) && st[n] == WRITTEN && lst[nep[n]] >= APPLIES && FENCED(n))
#endif
#if LIVES && BUG != NOT_FENCED
#define FENCED(n) ((dead | mem[nep[n]]) == ALL)
#else
#define FENCED(n) 1
#endif

/* A key that its record says was locked by CAS: if the lock is gone, the coordinator has committed it itself. */
#if SWAPS
#define STILL_LOCKED(t, k, n) (PRIM(k, tep[t]) != (n) || !SWAPS_AT(t, n) || !(rec[Q(t, n)] & REPLICATED) || BUG == REDO_UNCHECKED || (lk[X(k, n)] == OWNER(t) && ver[X(k, n)] == nb[(t)*2 + (k)]))
#else
#define STILL_LOCKED(t, k, n) 1
#endif
/* Nothing is sent of what is finished: a node installs what its own record has. */
#if NEXT_USE
#define HAS_VALUE(t, k, n) (!evr[t] || LOGGED(t, k, n))
#elif BUG == EXECUTOR_FORGETS
#define HAS_VALUE(t, k, n) (!(missing[t] & B(k)))
#else
#define HAS_VALUE(t, k, n) 1
#endif

/* t and its decision, key K at node M. */
inline settle_key(K, M) {
  if
  :: (rm[K] & B(M)) && IN_W(vt, K) && DEC(vt, nep[M]) == COMMIT && (BUG == REDO_UNCHECKED || ver[X(K, M)] <= nb[vt * 2 + K]) && STILL_LOCKED(vt, K, M) && HAS_VALUE(vt, K, M) ->
    MARK(20);
#if SWAPS
    if :: half[X(K, M)] -> MARK(23) :: else fi;
    half[X(K, M)] = 0;
    lk[X(K, M)] = 0;
#endif
    wr[X(K, M)] = vt + 1;
    ver[X(K, M)] = nb[vt * 2 + K] + 1
  :: !RINGS && (rm[K] & B(M)) && IN_W(vt, K) && DEC(vt, nep[M]) == ABORT && (rec[Q(vt, M)] & REPLICATED) && APPLIES_AT(vt, K, M) && (BUG == UNDO_UNCHECKED || BUG == UNDO_BLIND || ver[X(K, M)] == nb[vt * 2 + K] + 1) ->
    MARK(21);
    wr[X(K, M)] = uw[U(vt, M, K)];
    ver[X(K, M)] = nb[vt * 2 + K]
  :: else
  fi;
#if BUG != LOCK_STAYS && (!SWAPS || BUG == FREES_BY_NAME)
  if :: lk[X(K, M)] == OWNER(vt) -> lk[X(K, M)] = 0 :: else fi
#endif
}

/* Clients of M's coordinators are told; who lost its coordinator asks M. */
inline tell_recovered(M) {
  vt = 0;
  do
  :: vt < NT ->
    if
    :: co[vt] == M && ph[vt] >= LOCKING && ph[vt] < OVER && tep[vt] < nep[M] ->
      if
      :: DEC(vt, nep[M]) != NONE -> tell(vt, DEC(vt, nep[M]))
      :: else
      fi;
      ph[vt] = OVER
    :: !(mem[nep[M]] & B(co[vt])) && mark[Q(vt, M)] != NONE -> MARK(22); tell(vt, mark[Q(vt, M)])
    :: else
    fi;
    vt++
  :: else -> break
  od
}

inline settle(M) {
  vt = 0;
  do
  :: vt < NT ->
    if
    :: DEC(vt, nep[M]) != NONE && !(rec[Q(vt, M)] & SETTLED_HERE) ->
      settle_key(0, M);
      settle_key(1, M);
#if !SETTLES_AGAIN
      if :: rec[Q(vt, M)] & DECIDED -> rec[Q(vt, M)] = rec[Q(vt, M)] | SETTLED_HERE :: else fi;
#endif
#if BUG == NOT_WRITTEN
      rec[Q(vt, M)] = 0;
#endif
    :: else
    fi;
    vt++
  :: else -> break
  od;
#if SWAPS && BUG != LOCK_STAYS
  /* When all is carried out, whoever's they are: a lock names a slot, which may be another transaction's by now. */
  if :: lk[X(0, M)] || lk[X(1, M)] -> MARK(24) :: else fi;
  lk[X(0, M)] = 0;
  lk[X(1, M)] = 0;
#endif
#if BUG != FLAG_STAYS_LOW
  low[X(0, M)] = 0;
  low[X(1, M)] = 0;
#endif
}

#define CAN_WRITE(n) (ALIVE(n) && st[n] == STOPPED && lst[nep[n]] >= WRITES)

inline write_decisions(M) {
  printf("node %d has the decisions\n", M);
  vt = 0;
  do
  :: vt < NT ->
#if BUG != NOT_WRITTEN
    if
    :: DEC(vt, nep[M]) != NONE && TAKES_PART(vt, M) && !(rec[Q(vt, M)] == 0 && mark[Q(vt, M)] == COMMIT) -> /* not if truncated */
      mark[Q(vt, M)] = DEC(vt, nep[M]);
      rec[Q(vt, M)] = rec[Q(vt, M)] | DECIDED
    :: else
    fi;
#endif
    vt++
  :: else -> break
  od;
#if BUG == SERVES_EARLY || BUG == APPLIES_AT_ONCE
  settle(M);
#endif
#if BUG == SERVES_EARLY
  tell_recovered(M);
#endif
  st[M] = WRITTEN;
  ack[nep[M]] = ack[nep[M]] | B(M)
}

inline apply_decisions(M) {
  printf("node %d applies\n", M);
  settle(M);
  st[M] = APPLIED;
  ack[nep[M]] = ack[nep[M]] | B(M)
}


#define CAN_ACTIVATE(n) (ALIVE(n) && st[n] == APPLIED && lst[nep[n]] == ACTIVATES)

inline activate(M) {
  printf("node %d is active in epoch %d\n", M, nep[M]);
  st[M] = ACTIVE;
  tell_recovered(M);
  vt = 0;
  do
  :: vt < NT ->
    if
    :: tep[vt] < nep[M] ->
      rec[Q(vt, M)] = 0;
      uw[U(vt, M, 0)] = 0;
      uw[U(vt, M, 1)] = 0
    :: else
    fi;
    vt++
  :: else -> break
  od
}

/* ---- The end ---- */

#define AT_REST(T) (!ALIVE(co[T]) || ph[T] == OVER || (ph[T] == DONE && (NEXT_USE || pend[T] == 0)) || (LATE != 0 && T == IS_LATE && ph[T] == IDLE))
#define SETTLED(n) (!ALIVE(n) || (nep[n] == ep && st[n] == ACTIVE))
#if F == 1
#define ALL_SETTLED (SETTLED(0) && SETTLED(1) && SETTLED(2))
#else
#define ALL_SETTLED (SETTLED(0) && SETTLED(1) && SETTLED(2) && SETTLED(3))
#endif
#if NT == 2
#define QUIET (ALL_SETTLED && AT_REST(0) && AT_REST(1))
#else
#define QUIET (ALL_SETTLED && AT_REST(0))
#endif

/* t is committed if its writes are there; into ok. */
inline committed(T, K) {
  ok = HAS(T, K, PRIM(K, ep));
  MARK(30);
  assert(told[T] != COMMIT || ok);  /* told committed: durable */
  assert(told[T] != ABORT || !ok);  /* told aborted: nowhere */
  assert(!seen[T] || ok);           /* what was served stays */
}

inline final() {
  printf("at rest: ");
  vk = 0;
  do
  :: vk < 2 ->
    vm = PRIM(vk, ep);
    printf("key %d: writer %d version %d; ", vk, wr[X(vk, vm)], ver[X(vk, vm)]);
    vn = 0;
    do
    :: vn < N ->
      if
      :: ALIVE(vn) && (rm[vk] & B(vn)) ->
#if !CLIENTS
        assert(lk[X(vk, vn)] == 0);                                             /* no lock left */
        assert(!low[X(vk, vn)]);                                                /* no flag left low */
        assert(IS_WHOLE(vk, vn));                                               /* nothing half-written */
        assert(wr[X(vk, vn)] == wr[X(vk, vm)] && ver[X(vk, vn)] == ver[X(vk, vm)]);   /* replicas are equal */
#else
        skip
#endif
      :: else
      fi;
      vn++
    :: else -> break
    od;
    vk++
  :: else -> break
  od;
  printf("\n");
  vt = 0;
  do
  :: vt < NT ->
    vn = 0;
    do
    :: vn < N ->
#if NEXT_USE
      if :: ALIVE(vn) && rec[Q(vt, vn)] -> MARK(34) :: else fi;
#if !CLIENTS
      /* no record left, but of a commit that is finished, and of which no notice came */
      assert(!ALIVE(vn) || rec[Q(vt, vn)] == 0 || (ph[vt] == DONE && (pend[vt] & B(vn))));
#endif
#elif !CLIENTS
      assert(!ALIVE(vn) || rec[Q(vt, vn)] == 0); /* no record left */
#endif
      assert(!ALIVE(vn) || mark[Q(vt, vn)] == NONE || (mark[Q(vt, vn)] == COMMIT) == (HAS(vt, 1 - vt, PRIM(1 - vt, ep)))); /* what a survivor answers is so */
      vn++
    :: else -> break
    od;
    vt++
  :: else -> break
  od;
  committed(0, 1);
  com0 = ok;
#if BOTH
  assert(ok == HAS(0, 0, PRIM(0, ep))); /* all or nothing */
#endif
#if NT == 2
  committed(1, 0);
  com1 = ok;
#if BOTH
  assert(ok == HAS(1, 1, PRIM(1, ep)));
#endif
  assert(!(com0 && rsaw[0] && !com1)); /* nobody has read what was not committed */
  assert(!(com1 && rsaw[1] && !com0));
#if SWAPS
  assert(!(com0 && wsaw[0] && !com1));
  assert(!(com1 && wsaw[1] && !com0));
#endif
  if
  :: com0 && com1 ->
    MARK(31);
    if :: dead -> MARK(32) :: else fi;
    if :: edge[0] || edge[1] -> MARK(33) :: else fi;
    /* f01: T0 before T1. By reads, by versions, by real time and single reads. */
    f01 = edge[1] || rsaw[1] || !rsaw[0];
    f10 = edge[0] || rsaw[0] || !rsaw[1];
#if BOTH
    f01 = f01 || nb[0] < nb[2] || nb[1] < nb[3];
    f10 = f10 || nb[2] < nb[0] || nb[3] < nb[1];
#if SWAPS && !MIXED
    f01 = f01 || wsaw[1] || !wsaw[0];
    f10 = f10 || wsaw[0] || !wsaw[1];
#endif
#endif
    assert(!(f01 && f10)); /* strictly serializable */
  :: else
  fi;
#endif
  if :: com0 && dead && !ALIVE(co[0]) -> MARK(35) :: else fi;
  if :: !com0 && dead && !ALIVE(co[0]) && told[0] == ABORT -> MARK(36) :: else fi;
}

/* ---- Everything that can happen next ---- */

/* A step is chosen, then done, at once: one copy of what it does. */
#define BEGIN 1
#define ADVANCE 2
#define DELIVER 3
#define CRASH 4
#define ADOPT 5
#define DECIDE 6
#define WRITE 7
#define ORDER_APPLY 8
#define APPLY 9
#define ORDER_ACTIVE 10
#define ACTIVATE 11
#define TELL_EARLY 12
#define READ_ON 13
#define DRAIN 14
#define DIE 15
#define LOG_LATE 16
#define GIVE_UP 17
#define PAIR_BEGIN 18
#define PAIR_STEP 19
#define SHIP 20

#if BUG == UNLOCK_EARLY
#define S_LATE(T, n) :: d_step { CAN_LOG(T, n) -> step = LOG_LATE; aT = T; aM = n }
#else
#define S_LATE(T, n)
#endif
#if RINGS
#define S_DRAIN(T, n) :: d_step { CAN_DRAIN(T, n) -> step = DRAIN; aT = T; aM = n }
#else
#define S_DRAIN(T, n)
#endif
#define S_DELIVER(T, n) :: d_step { CAN_DELIVER(T, n) -> step = DELIVER; aT = T; aM = n } S_LATE(T, n) S_DRAIN(T, n)
#if LIVES
#define S_DIE(n) :: d_step { CAN_DIE(n) -> step = DIE; aM = n }
#else
#define S_DIE(n)
#endif
#if SWAPS
#define S_READ_ON(T) :: d_step { CAN_READ_ON(T) -> step = READ_ON; aT = T }
#else
#define S_READ_ON(T)
#endif
#if PAIR
#define S_PAIR(n) \
  :: d_step { PAIR_BEGINS(n) -> step = PAIR_BEGIN; aM = n; aT = 0 } \
  :: d_step { PAIR_BEGINS(n) -> step = PAIR_BEGIN; aM = n; aT = 1 }
#else
#define S_PAIR(n)
#endif
#define S_NODE(n) \
  S_DIE(n) S_PAIR(n) \
  :: d_step { CAN_CRASH(n) -> step = CRASH; aM = n } \
  :: d_step { CAN_ADOPT(n) -> step = ADOPT; aM = n } \
  :: d_step { CAN_WRITE(n) -> step = WRITE; aM = n } \
  :: d_step { CAN_APPLY(n) -> step = APPLY; aM = n } \
  :: d_step { CAN_ACTIVATE(n) -> step = ACTIVATE; aM = n }
#if NEXT_USE || BUG == SHIP_ABORT
#define S_GIVE_UP(T) :: d_step { CAN_GIVE_UP(T) -> step = GIVE_UP; aT = T }
#else
#define S_GIVE_UP(T)
#endif
#if SHIPS
#define S_SHIP(T) :: d_step { CAN_SHIP(T) -> step = SHIP; aT = T }
#else
#define S_SHIP(T)
#endif
#define S_TXN(T) \
  :: d_step { MAY_BEGIN(T) -> step = BEGIN; aT = T } \
  S_READ_ON(T) S_GIVE_UP(T) S_SHIP(T) \
  :: d_step { CAN_ADVANCE(T) -> step = ADVANCE; aT = T } \
  S_DELIVER(T, 0) S_DELIVER(T, 1) S_DELIVER(T, 2)
#define UNDECIDED(T, e) ((mem[e] & B(co[T])) && ph[T] >= LOCKING && ph[T] < UNLOCKING)
#if NT == 2
#define S_LEADER2(e) \
  :: d_step { CAN_DECIDE(e) && UNDECIDED(1, e) -> step = DECIDE; aE = e; aL = 2 } \
  :: d_step { CAN_DECIDE(e) && UNDECIDED(0, e) && UNDECIDED(1, e) -> step = DECIDE; aE = e; aL = 3 }
#else
#define S_LEADER2(e)
#endif
#define S_LEADER(e) \
  :: d_step { CAN_DECIDE(e) -> step = DECIDE; aE = e; aL = 0 } \
  :: d_step { CAN_DECIDE(e) && UNDECIDED(0, e) -> step = DECIDE; aE = e; aL = 1 } \
  S_LEADER2(e) \
  :: d_step { CAN_ORDER_APPLY(e) -> step = ORDER_APPLY; aE = e } \
  :: d_step { CAN_ORDER_ACTIVE(e) -> step = ORDER_ACTIVE; aE = e }

inline take() {
  if
  :: step == BEGIN -> begin(aT)
  :: step == ADVANCE -> advance(aT)
  :: step == DELIVER -> deliver(aT, aM)
  :: step == CRASH -> crash(aM)
  :: step == ADOPT -> adopt(aM)
  :: step == DECIDE -> decide(aE)
  :: step == WRITE -> write_decisions(aM)
  :: step == ORDER_APPLY -> lst[aE] = APPLIES; ack[aE] = 0; printf("epoch %d: written everywhere\n", aE)
  :: step == APPLY -> apply_decisions(aM)
  :: step == ORDER_ACTIVE -> lst[aE] = ACTIVATES; ack[aE] = 0; printf("epoch %d: applied everywhere\n", aE)
  :: step == ACTIVATE -> activate(aM)
#if BUG == SHIP_ABORT
  :: step == GIVE_UP ->
    printf("T%d: coordinator %d gives it up, and has shipped it\n", aT, co[aT]);
    abort_now(aT)
#elif NEXT_USE
  :: step == GIVE_UP ->
    printf("T%d: coordinator %d gives it up\n", aT, co[aT]);
    nack[aT] = 1
#endif
#if SHIPS
  :: step == SHIP -> ship(aT)
#endif
#ifdef TELLS_EARLY
  :: step == TELL_EARLY -> tell(aT, COMMIT)
#endif
#if SWAPS
  :: step == READ_ON -> read_on(aT)
#endif
#if RINGS
  :: step == DRAIN ->
    printf("T%d: node %d looks into its ring\n", aT, aM);
    take_entry(aT, aM)
#endif
#if LIVES
  :: step == DIE -> die(aM)
#endif
#if PAIR
  :: step == PAIR_BEGIN -> pair_begin(aM, aT)
  :: step == PAIR_STEP -> pair_step()
#endif
#if BUG == UNLOCK_EARLY
  :: step == LOG_LATE ->
    late[aT] = late[aT] & ~B(aM);
    if
    :: RINGS && co[aT] != aM -> log_lands(aT, aM)
    :: else -> rec[Q(aT, aM)] = rec[Q(aT, aM)] | REPLICATED
    fi
#endif
  fi;
  watch();
  step = 0; aT = 0; aM = 0; aE = 0
}

init {
  atomic {
    mem[0] = ALL;
#if F == 1
    rp[0] = 0;
    rp[2] = 1;
    /* The fourth placement (x at 0, 2 and y at 1, 0) is the first with the names exchanged. */
    if
    :: rp[1] = 1; rp[3] = 2
    :: rp[1] = 1; rp[3] = 0
    :: rp[1] = 2; rp[3] = 2
#if SLOT
    :: rp[1] = 2; rp[3] = 0
#endif
    fi;
    rm[0] = B(rp[0]) | B(rp[1]);
    rm[1] = B(rp[2]) | B(rp[3]);
    /* In the last two placements exchanging the names maps (2, 1) to (0, 2) and (2, 0) to (1, 2). */
    if
#if SLOT
    :: co[0] = 0; co[1] = 0
    :: co[0] = 1; co[1] = 1
    :: co[0] = 2; co[1] = 2
#else
    :: co[0] = 0; co[1] = 1
    :: co[0] = 0; co[1] = 2
    :: co[0] = 1; co[1] = 0
    :: co[0] = 1; co[1] = 2
    :: rp[1] == 1 && rp[3] == 2 -> co[0] = 2; co[1] = 0
    :: rp[1] == 1 && rp[3] == 2 -> co[0] = 2; co[1] = 1
#endif
    fi;
#else
    if
    :: rp[0] = 0; rp[1] = 1; rp[2] = 2; rp[3] = 1; rp[4] = 2; rp[5] = 3
    :: rp[0] = 0; rp[1] = 1; rp[2] = 2; rp[3] = 1; rp[4] = 2; rp[5] = 0
    :: rp[0] = 3; rp[1] = 2; rp[2] = 1; rp[3] = 2; rp[4] = 1; rp[5] = 0
    fi;
    rm[0] = B(rp[0]) | B(rp[1]) | B(rp[2]);
    rm[1] = B(rp[3]) | B(rp[4]) | B(rp[5]);
    if
    :: co[0] = 0
    :: co[0] = 1
    :: co[0] = 2
    :: co[0] = 3
    fi;
#if SLOT
    co[1] = co[0];
#elif NT == 2
    if
    :: co[0] != 0 -> co[1] = 0
    :: co[0] != 1 -> co[1] = 1
    :: co[0] != 2 -> co[1] = 2
    :: co[0] != 3 -> co[1] = 3
    fi;
#endif
#endif
#ifdef COVER
    c_code { weft_placements[(now.rp[0] % 2 + 2 * (now.rp[1] % 2) + 4 * now.rp[2 * R - 1] + 16 * now.co[0] + 64 * now.co[NT - 1]) & 1023] = 1; };
#endif
    printf("x at %d, %d; y at %d, %d; T0 at %d\n", rp[0], rp[1], rp[R], rp[R + 1], co[0]);
#if NT == 2
    printf("T1 at %d\n", co[1]);
#endif
  }
  do
  :: d_step { QUIET -> final() } -> break
  :: atomic {
    if
    S_TXN(0)
#if NT == 2
    S_TXN(1)
#endif
    S_NODE(0)
    S_NODE(1)
    S_NODE(2)
#if F == 2
    S_NODE(3)
    S_DELIVER(0, 3)
#if NT == 2
    S_DELIVER(1, 3)
#endif
#endif
#if PAIR
    :: d_step { PAIR_GOES_ON -> step = PAIR_STEP }
#endif
#if VIEWS == 2
    S_LEADER(2)
#endif
    S_LEADER(1)
#ifdef TELLS_EARLY
    :: d_step { TELLS_EARLY(0) && RUNS(0) && told[0] == NONE -> step = TELL_EARLY; aT = 0 }
#if NT == 2
    :: d_step { TELLS_EARLY(1) && RUNS(1) && told[1] == NONE -> step = TELL_EARLY; aT = 1 }
#endif
#endif
    fi;
    d_step { take() }
  }
  od
}
