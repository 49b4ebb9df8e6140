/*
 * Commit and recovery of Weft's protocol rows. One file for all of them; the C preprocessor chooses:
 *
 *   ROW       4, 2, 1    dnl4, dnl2, dnl1
 *   F         1, 2       crashes that must be survived: F + 1 replicas, F + 2 nodes
 *   NT        1, 2       transactions
 *   BOTH      0, 1       0: T0 reads x and writes y, T1 reads y and writes x (write skew)
 *                        1: both write both keys, T0 has read x, T1 has read y
 *   LATE      0, 1, 2    1: T1 begins only after the first view change, 2: T0
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
#ifndef NT
#define NT 2
#endif
#ifndef BOTH
#define BOTH 0
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef BUG
#define BUG 0
#endif

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

/* Replicas, by key * N + node: who wrote last (0: nobody), version, lock owner (0: none, t + 1), readable flag lowered. */
byte wr[2 * N];
byte ver[2 * N];
byte lk[2 * N];
bit low[2 * N];

/* Records, by t * N + node; uw: what the applied write replaced, by (t * N + node) * 2 + key. */
byte rec[NT * N];
byte mark[NT * N]; /* decision written, or outcome remembered after truncation */
byte uw[NT * N * 2];

/* Coordinators. */
byte ph[NT];
byte mph[NT];   /* phase of the messages under way */
byte pend[NT];  /* nodes they have not reached */
byte lockd[NT]; /* nodes that locked */
bit nack[NT];
byte nb[NT * 2]; /* base version of a written key; the new one is one more */
byte rv[NT];     /* version read */
bit rsaw[NT];    /* it was the other transaction's */
byte told[NT];
byte tep[NT];

/* Membership and recovery. */
byte dead;
byte ep;         /* newest view */
byte mem[F + 1];
byte nep[N];     /* adopted */
byte st[N];
byte lst[F + 1];
byte ack[F + 1];
byte dec[NT];

/* What single reads could have seen: reading is possible at any moment, so what can be served counts as served. */
bit seen[NT];
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

#if BOTH
#define IN_W(t, k) 1
#else
#define IN_W(t, k) ((k) != (t))
#endif
#define IN_R(t, k) ((k) == (t))
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
#define WLOCKED(k, n) (lk[X(k, n)] != 0 && IN_W(lk[X(k, n)] - 1, k))
#define SERVING(n) (ALIVE(n) && SERVES_AT(n))
#if BUG == SERVES_EARLY
#define SERVES_AT(n) (st[n] == ACTIVE || st[n] >= WRITTEN)
#else
#define SERVES_AT(n) (st[n] == ACTIVE)
#endif
#if ROW == 4
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

inline tell(T, outcome) {
  assert(told[T] == NONE || told[T] == outcome); /* nobody is told twice, differently */
  if
  :: told[T] == NONE -> printf("T%d: the client is told: %d (1 commit, 2 abort)\n", T, outcome)
  :: else
  fi;
  told[T] = outcome;
}

/* ---- The coordinator ---- */

/* Where a phase goes, into tgt. */
inline targets(T, phase) {
  tgt = 0;
  vk = 0;
  do
  :: vk < 2 ->
    if
    :: phase == LOCKING ->
#if ROW == 1
      tgt = tgt | WHOLE(vk, tep[T]);  /* both keys are in R or W */
#elif ROW == 2
      tgt = tgt | B(PRIM(vk, tep[T]));
#else
      if :: IN_W(T, vk) -> tgt = tgt | B(PRIM(vk, tep[T])) :: else fi;
#endif
    :: phase == VALIDATING ->
      if :: ONLY_R(T, vk) -> tgt = tgt | B(PRIM(vk, tep[T])) :: else fi;
    :: phase == REPLICATING ->
      if
      :: IN_W(T, vk) ->
#if ROW == 2
        tgt = tgt | WHOLE(vk, tep[T]);
#elif ROW == 4
        tgt = tgt | (WHOLE(vk, tep[T]) & ~B(PRIM(vk, tep[T])));
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
#define CAN_BEGIN(T) (ph[T] == IDLE && ALIVE(co[T]) && st[co[T]] == ACTIVE && (LATE == 0 || T != IS_LATE || nep[co[T]] > 0))
#define READS_AT(T) ((WHOLE(T, nep[co[T]]) & B(co[T])) -> co[T] : PRIM(T, nep[co[T]]))
#define CAN_READ(T) (ALIVE(READS_AT(T)) && nep[READS_AT(T)] == nep[co[T]] && st[READS_AT(T)] == ACTIVE)

/* Key T is what T reads. At its own replica, else at the primary, whatever lock and flag say. */
inline begin(T) {
  vm = READS_AT(T);
  tep[T] = nep[co[T]];
  ph[T] = EXEC;
  rv[T] = ver[X(T, vm)];
  rsaw[T] = (wr[X(T, vm)] != 0 && wr[X(T, vm)] != T + 1);
#if NT == 2
  if :: told[1 - T] == COMMIT -> edge[T] = 1 :: else fi;
#endif
  printf("T%d: coordinator %d reads key %d at node %d: version %d, epoch %d\n", T, co[T], T, vm, rv[T], tep[T]);
}

#define RUNS(T) (ALIVE(co[T]) && st[co[T]] == ACTIVE && nep[co[T]] == tep[T])
#define CAN_ADVANCE(T) (ph[T] >= EXEC && ph[T] <= ABORTING && RUNS(T) && pend[T] == 0)

#if BUG == TOLD_EARLY && ROW == 4
#define TELLS_EARLY(T) (ph[T] == REPLICATING && pend[T] == 0)
#elif BUG == TOLD_EARLY && ROW == 2
/* The primaries' answers are not waited for. */
#define TELLS_EARLY(T) (ph[T] == REPLICATING && (pend[T] & ~(B(PRIM(0, tep[T])) | B(PRIM(1, tep[T])))) == 0)
#elif BUG == TOLD_EARLY && ROW == 1
/* The backups' locks are not waited for. */
#define TELLS_EARLY(T) (ph[T] == LOCKING && !nack[T] && (pend[T] & (B(PRIM(0, tep[T])) | B(PRIM(1, tep[T])))) == 0)
#endif

inline abort_now(T) {
#if ROW == 1 && BUG != ABORT_AT_ONCE
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
  ph[T] = UNLOCKING;
  mph[T] = UNLOCKING;
  pend[T] = lockd[T];
}

/* All answers of the phase are in. */
inline advance(T) {
  printf("T%d: coordinator %d goes on from phase %d\n", T, co[T], ph[T]);
  if
  :: ph[T] == EXEC -> enter(T, LOCKING)
  :: ph[T] == LOCKING ->
    if
    :: nack[T] -> abort_now(T)
    :: else ->
#if ROW == 4
      enter(T, VALIDATING)
#elif ROW == 2
      enter(T, REPLICATING)
#else
      tell(T, COMMIT);
      unlock_now(T)
#endif
    fi
#if ROW == 4
  :: ph[T] == VALIDATING ->
    if
    :: nack[T] -> abort_now(T)
    :: else -> enter(T, REPLICATING)
    fi
#endif
#if ROW != 1
  :: ph[T] == REPLICATING ->
#if ROW == 2 || BUG == TOLD_EARLY
    tell(T, COMMIT);
#endif
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
#define CAN_DELIVER(T, n) ((pend[T] & B(n)) && ALIVE(n) && EPOCH_OK(T, n) && HANDLES(n))

/* Keys of T to lock at node n in its epoch. */
#if ROW == 1
#define LOCKS(T, k, n) (WHOLE(k, tep[T]) & B(n))
#elif ROW == 2
#define LOCKS(T, k, n) (PRIM(k, tep[T]) == (n))
#else
#define LOCKS(T, k, n) (IN_W(T, k) && PRIM(k, tep[T]) == (n))
#endif
#if BUG == NO_VALIDATION
#define AS_READ(T, k, n) 1
#else
#define AS_READ(T, k, n) (!IN_R(T, k) || ver[X(k, n)] == rv[T])
#endif
#define LOCKABLE(T, k, n) (!LOCKS(T, k, n) || (lk[X(k, n)] == 0 && AS_READ(T, k, n)))
#define APPLIES_AT(T, k, n) (IN_W(T, k) && (WHOLE(k, tep[T]) & B(n)) && PRIM(k, tep[T]) != (n))
#define VALID(T, k, n) (!(ONLY_R(T, k) && PRIM(k, tep[T]) == (n)) || ((lk[X(k, n)] == 0 || lk[X(k, n)] == T + 1) && ver[X(k, n)] == rv[T]))

inline lock_key(T, K, M) {
  if
  :: LOCKS(T, K, M) ->
    lk[X(K, M)] = T + 1;
    if
    :: IN_W(T, K) ->
#if ROW == 1
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
#if BUG != FLAG_NOT_LOWERED
    low[X(K, M)] = 1
#endif
  :: else
  fi
}

inline commit_key(T, K, M) {
  if
  :: lk[X(K, M)] == T + 1 ->
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

inline deliver(T, M) {
  pend[T] = pend[T] & ~B(M);
  if
  :: mph[T] == LOCKING ->
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
#if ROW == 4
  :: mph[T] == VALIDATING ->
#if BUG != NO_VALIDATION
    if
    :: VALID(T, 0, M) && VALID(T, 1, M) -> printf("T%d: node %d validates\n", T, M)
    :: else ->
      printf("T%d: node %d finds a read invalid\n", T, M);
      MARK(4);
      nack[T] = 1
    fi
#else
    skip
#endif
#endif
#if ROW != 1
  :: mph[T] == REPLICATING ->
    printf("T%d: node %d replicates\n", T, M);
    apply_key(T, 0, M);
    apply_key(T, 1, M);
    rec[Q(T, M)] = rec[Q(T, M)] | REPLICATED
#endif
  :: mph[T] == UNLOCKING ->
    printf("T%d: node %d installs and unlocks\n", T, M);
    commit_key(T, 0, M);
    commit_key(T, 1, M);
    rec[Q(T, M)] = rec[Q(T, M)] | COMMITTED
  :: mph[T] == ABORTING ->
    printf("T%d: node %d unlocks, aborted\n", T, M);
    if :: lk[X(0, M)] == T + 1 -> lk[X(0, M)] = 0 :: else fi;
    if :: lk[X(1, M)] == T + 1 -> lk[X(1, M)] = 0 :: else fi;
    rec[Q(T, M)] = 0
  :: mph[T] == DONE ->
    printf("T%d: node %d raises and truncates\n", T, M);
    raise_key(T, 0, M);
    raise_key(T, 1, M);
    rec[Q(T, M)] = 0;
    uw[U(T, M, 0)] = 0;
    uw[U(T, M, 1)] = 0;
#if BUG != NO_MARK
    mark[Q(T, M)] = COMMIT
#endif
  fi
}

/* ---- Crash, view change, recovery ---- */

#define CAN_CRASH(n) (ep < F && ALIVE(n))

/* A view without n exists at once; who adopts it when is open. */
inline crash(M) {
  printf("node %d crashes\n", M);
  dead = dead | B(M);
  ep++;
  mem[ep] = ALL & ~dead;
#if F == 1
  /* nobody will ask: fewer states that differ in nothing that matters */
  wr[X(0, M)] = 0; ver[X(0, M)] = 0; lk[X(0, M)] = 0; low[X(0, M)] = 0;
  wr[X(1, M)] = 0; ver[X(1, M)] = 0; lk[X(1, M)] = 0; low[X(1, M)] = 0;
  rec[Q(0, M)] = 0; mark[Q(0, M)] = 0; uw[U(0, M, 0)] = 0; uw[U(0, M, 1)] = 0;
#if NT == 2
  rec[Q(1, M)] = 0; mark[Q(1, M)] = 0; uw[U(1, M, 0)] = 0; uw[U(1, M, 1)] = 0;
#endif
#endif
}

#define CAN_ADOPT(n) (ALIVE(n) && nep[n] < ep)

inline adopt(M) {
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
#if ROW == 1
#define TAKES_PART(t, n) ((WHOLE(0, tep[t]) | WHOLE(1, tep[t])) & B(n))
#elif ROW == 2
#define TAKES_PART(t, n) (((IN_W(t, 0) -> WHOLE(0, tep[t]) : B(PRIM(0, tep[t]))) | (IN_W(t, 1) -> WHOLE(1, tep[t]) : B(PRIM(1, tep[t])))) & B(n))
#else
#define TAKES_PART(t, n) (((IN_W(t, 0) -> WHOLE(0, tep[t]) : 0) | (IN_W(t, 1) -> WHOLE(1, tep[t]) : 0)) & B(n))
#endif

/* Whether node n has key k's new value: in its record, with a decision, or in its table when it has truncated. */
#if ROW == 1
#define LOGGED(t, k, n) ((rec[Q(t, n)] & LOCKED) && (WHOLE(k, tep[t]) & B(n)))
#elif ROW == 2
#define LOGGED(t, k, n) ((rec[Q(t, n)] & REPLICATED) && (WHOLE(k, tep[t]) & B(n)))
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

#if BUG == VALUES_UNCHECKED
#define VALUES 1
#else
#define VALUES (com0 && com1)
#endif

/* The coordinator has decided, and not yet forgotten. */
#define KNOWS(t) (ph[t] >= UNLOCKING && ph[t] <= DONE)

/* One transaction, by what the members of epoch E have reported. */
inline decide_one(E) {
  dec[vt] = NONE;
  cin = (mem[E] & B(co[vt])) != 0;
  vo = 0;                             /* all records' bits together */
  ve = NONE;                          /* a decision that is written */
  any = cin && ph[vt] >= LOCKING && ph[vt] <= ABORTING; /* is it open at all */
  all = 1;                           /* every surviving participant has LOCKED */
  com0 = cin || !IN_W(vt, 0);         /* the value of key 0 is at a survivor */
  com1 = cin || !IN_W(vt, 1);
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
#if BUG == ASKS_WRITERS
      if
      :: TAKES_PART(vt, vn) && !(rec[Q(vt, vn)] & LOCKED) && ((IN_W(vt, 0) && (rm[0] & B(vn))) || (IN_W(vt, 1) && (rm[1] & B(vn)))) -> all = 0
      :: else
      fi;
#else
      if :: TAKES_PART(vt, vn) && !(rec[Q(vt, vn)] & LOCKED) -> all = 0 :: else fi;
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
  if
  :: !any -> skip
  :: else ->
    if
    :: ve != NONE -> MARK(10); dec[vt] = ve
    :: ve == NONE && cin && (ph[vt] == UNLOCKING || ph[vt] == DONE) -> MARK(11); dec[vt] = COMMIT
    :: ve == NONE && cin && ph[vt] == ABORTING -> MARK(12); dec[vt] = ABORT
    :: ve == NONE && !(cin && KNOWS(vt)) && (vo & COMMITTED) -> MARK(13); dec[vt] = COMMIT
    :: ve == NONE && cin && ph[vt] < UNLOCKING && !(vo & COMMITTED) && (aL & B(vt)) -> MARK(14); dec[vt] = ABORT
    :: ve == NONE && !(cin && KNOWS(vt)) && !(vo & COMMITTED) && !(aL & B(vt)) ->
#if ROW == 1
      if
      :: all -> MARK(15); dec[vt] = COMMIT
      :: else -> MARK(16); dec[vt] = ABORT
      fi
#else
      if
      :: (vo & REPLICATED) && VALUES -> MARK(17); dec[vt] = COMMIT
      :: (vo & REPLICATED) && !VALUES -> MARK(18); dec[vt] = ABORT
      :: !(vo & REPLICATED) -> MARK(19); dec[vt] = ABORT
      fi
#endif
    fi;
    assert(dec[vt] != COMMIT || (com0 && com1)); /* what is committed can be installed */
    printf("epoch %d: the leader decides T%d: %d (1 commit, 2 abort); records %d, coordinator lives %d, its phase %d\n", E, vt, dec[vt], vo, cin, ph[vt])
  fi
}

/* With a coordinator that lives and is not past its commit point the leader may look at the records as if it were gone,
 * or abort: both are tried, for each transaction and epoch. */
inline decide(E) {
  vt = 0;
  do
  :: vt < NT ->
    decide_one(E);
#if BUG != OLD_EPOCH
    pend[vt] = (tep[vt] < E -> 0 : pend[vt]); /* nobody will handle them */
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
#define CAN_APPLY(n) (ALIVE(n) && (st[n] == WRITTEN || st[n] == STOPPED) && lst[nep[n]] >= APPLIES)
#else
#define CAN_APPLY(n) (ALIVE(n) && st[n] == WRITTEN && lst[nep[n]] >= APPLIES)
#endif

/* t and its decision, key K at node M. */
inline settle_key(K, M) {
  if
  :: (rm[K] & B(M)) && IN_W(vt, K) && dec[vt] == COMMIT && (BUG == REDO_UNCHECKED || ver[X(K, M)] <= nb[vt * 2 + K]) ->
    MARK(20);
    wr[X(K, M)] = vt + 1;
    ver[X(K, M)] = nb[vt * 2 + K] + 1
  :: (rm[K] & B(M)) && IN_W(vt, K) && dec[vt] == ABORT && (rec[Q(vt, M)] & REPLICATED) && APPLIES_AT(vt, K, M) && (BUG == UNDO_UNCHECKED || BUG == UNDO_BLIND || ver[X(K, M)] == nb[vt * 2 + K] + 1) ->
    MARK(21);
    wr[X(K, M)] = uw[U(vt, M, K)];
    ver[X(K, M)] = nb[vt * 2 + K]
  :: else
  fi;
#if BUG != LOCK_STAYS
  if :: lk[X(K, M)] == vt + 1 -> lk[X(K, M)] = 0 :: else fi
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
      :: dec[vt] != NONE -> tell(vt, dec[vt])
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
    :: dec[vt] != NONE && !(rec[Q(vt, M)] & SETTLED_HERE) ->
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
    :: dec[vt] != NONE && TAKES_PART(vt, M) && !(rec[Q(vt, M)] == 0 && mark[Q(vt, M)] == COMMIT) -> /* not if truncated */
      mark[Q(vt, M)] = dec[vt];
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

#define AT_REST(T) (!ALIVE(co[T]) || ph[T] == OVER || (ph[T] == DONE && pend[T] == 0) || (LATE != 0 && T == IS_LATE && ph[T] == IDLE))
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
        assert(lk[X(vk, vn)] == 0);                                             /* no lock left */
        assert(!low[X(vk, vn)]);                                                /* no flag left low */
        assert(wr[X(vk, vn)] == wr[X(vk, vm)] && ver[X(vk, vn)] == ver[X(vk, vm)]);   /* replicas are equal */
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
      assert(!ALIVE(vn) || rec[Q(vt, vn)] == 0); /* no record left */
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

#define S_DELIVER(T, n) :: d_step { CAN_DELIVER(T, n) -> step = DELIVER; aT = T; aM = n }
#define S_NODE(n) \
  :: d_step { CAN_CRASH(n) -> step = CRASH; aM = n } \
  :: d_step { CAN_ADOPT(n) -> step = ADOPT; aM = n } \
  :: d_step { CAN_WRITE(n) -> step = WRITE; aM = n } \
  :: d_step { CAN_APPLY(n) -> step = APPLY; aM = n } \
  :: d_step { CAN_ACTIVATE(n) -> step = ACTIVATE; aM = n }
#define S_TXN(T) \
  :: d_step { CAN_BEGIN(T) && CAN_READ(T) -> step = BEGIN; aT = T } \
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
#ifdef TELLS_EARLY
  :: step == TELL_EARLY -> tell(aT, COMMIT)
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
    fi;
    rm[0] = B(rp[0]) | B(rp[1]);
    rm[1] = B(rp[2]) | B(rp[3]);
    /* In the last two placements exchanging the names maps (2, 1) to (0, 2) and (2, 0) to (1, 2). */
    if
    :: co[0] = 0; co[1] = 1
    :: co[0] = 0; co[1] = 2
    :: co[0] = 1; co[1] = 0
    :: co[0] = 1; co[1] = 2
    :: rp[1] == 1 && rp[3] == 2 -> co[0] = 2; co[1] = 0
    :: rp[1] == 1 && rp[3] == 2 -> co[0] = 2; co[1] = 1
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
#if NT == 2
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
