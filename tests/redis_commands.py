"""Commands for the comparison with redis-server: scripts that go through every option, and random ones."""

FAR = 4102444800  # seconds: the year 2100
FAR_MS = FAR * 1000 + 123


def lines(text):
    """One command a line; a word in quotes may have spaces; \\xNN is a byte."""
    import shlex
    commands = []
    for line in text.strip().splitlines():
        if line.strip():
            commands.append(tuple(word.encode("latin-1").decode("unicode_escape").encode("latin-1")
                                  if "\\" in word else word for word in shlex.split(line)))
    return commands


# A list and others: types that Weft does not have yet are not made here; WRONGTYPE is tested beside the code.
SCRIPTS = {name: lines(text) for name, text in {
    "set": f"""
        SET a 1
        GET a
        SET a 2 NX
        SET a 2 XX
        SET b 2 XX
        SET b 2 NX
        SET a 3 GET
        SET c 3 GET
        SET c 4 NX GET
        SET d 4 NX GET
        SET d 5 XX GET
        SET e 5 EX 100
        TTL e
        SET e 6 KEEPTTL
        TTL e
        SET e 7
        TTL e
        SET e 8 PX 100000
        PTTL e
        SET e 9 EXAT {FAR}
        EXPIRETIME e
        SET e 9 PXAT {FAR_MS}
        PEXPIRETIME e
        SET e 9 EXAT 1
        GET e
        EXISTS e
        SET e 1 EX 0
        SET e 1 EX -1
        SET e 1 EX x
        SET e 1 EX 9223372036854775807
        SET e 1 PX 9223372036854775807
        SET e 1 EX
        SET e 1 EX 10 PX 10
        SET e 1 EX 10 EX 1000 NX NX
        SET e 1 EX 10 EX 1000
        TTL e
        SET e 1 EX 10 EXAT {FAR}
        SET e 1 EX 10 KEEPTTL
        SET e 1 KEEPTTL EX 10
        SET e 1 NX XX
        SET e 1 FOO
        SET e 1 PERSIST
        SET e
        SET
        SETNX n 1
        SETNX n 2
        GET n
        SETEX s 100 v
        TTL s
        SETEX s 0 v
        SETEX s x v
        PSETEX s 100000 v
        PTTL s
        PSETEX s -5 v
        GETSET s new
        TTL s
        GETSET none new
        GETDEL none
        GETDEL none
        GET none
    """,
    "getex": f"""
        SET a v
        GETEX a
        GETEX a EX 100
        TTL a
        GETEX a PERSIST
        TTL a
        GETEX a EXAT {FAR}
        EXPIRETIME a
        GETEX a PXAT {FAR_MS}
        PEXPIRETIME a
        GETEX a PXAT 1
        GET a
        GETEX a EX 10
        SET a v
        GETEX a EX 0
        GETEX a EX x
        GETEX a EX 10 PERSIST
        GETEX a PERSIST EX 10
        GETEX a NX
        GETEX a KEEPTTL
        GETEX
    """,
    "strings": """
        SET a hello
        APPEND a ' world'
        APPEND new x
        STRLEN a
        STRLEN none
        GETRANGE a 0 4
        GETRANGE a -5 -1
        GETRANGE a 5 2
        GETRANGE a -1 -5
        GETRANGE a -100 100
        GETRANGE a 100 200
        GETRANGE a x 1
        GETRANGE none 0 -1
        SUBSTR a 0 2
        SETRANGE a 6 WEFT
        GET a
        SETRANGE pad 5 x
        GET pad
        SETRANGE a -1 x
        SETRANGE a x x
        SETRANGE empty 0 ''
        EXISTS empty
        SETRANGE a 3 ''
        SETRANGE none2 10 ''
        MSET x 1 y 2 x 3
        MGET x y none x
        MSET x
        MSET x 1 y
        MSETNX p 1 q 2
        MSETNX p 1 r 2
        MSETNX p
        MGET p q r
        GET
        GET a b
        MGET
    """,
    "counters": """
        INCR a
        INCR a
        DECR a
        INCRBY a 10
        DECRBY a 3
        INCRBY a -5
        INCRBY a x
        INCRBY a 1.5
        INCRBY a 9223372036854775807
        SET m 9223372036854775807
        INCR m
        SET m -9223372036854775808
        DECR m
        DECRBY m -9223372036854775808
        DECRBY a -9223372036854775808
        SET t text
        INCR t
        SET t ' 1'
        INCR t
        SET t 01
        INCR t
        SET t -0
        INCR t
        SET t +1
        INCR t
        SET t ''
        INCR t
        INCRBYFLOAT f 1.5
        INCRBYFLOAT f 1.25
        INCRBYFLOAT f -3
        INCRBYFLOAT f 1e3
        INCRBYFLOAT f x
        INCRBYFLOAT f inf
        INCRBYFLOAT f -inf
        INCRBYFLOAT f nan
        INCRBYFLOAT f ' 1'
        INCRBYFLOAT f 0.1
        INCRBYFLOAT f 3.0e-5
        INCRBYFLOAT t 1
        SET z 10.50
        INCRBYFLOAT z 0.1
        INCRBYFLOAT z 5.0e3
        SET z 0
        INCRBYFLOAT z -0.0
        INCR f
    """,
    "lcs": """
        MSET a ohmytext b mynewtext
        LCS a b
        LCS a b LEN
        LCS a b IDX
        LCS a b IDX MINMATCHLEN 4
        LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN
        LCS a b IDX WITHMATCHLEN
        LCS a b LEN IDX
        LCS a b FOO
        LCS a b MINMATCHLEN x
        LCS a none
        LCS none none2
        LCS none none2 LEN
        LCS none none2 IDX
        MSET c aaaabbbb d bbbbaaaa
        LCS c d
        LCS c d IDX
        LCS a
    """,
    "bits": r"""
        SETBIT a 7 1
        GETBIT a 7
        GETBIT a 6
        GETBIT a 100
        SETBIT a 7 0
        SETBIT a 100 1
        STRLEN a
        SETBIT a -1 1
        SETBIT a x 1
        SETBIT a 4294967296 1
        SETBIT a 1 2
        SETBIT a 1 x
        GETBIT a -1
        GETBIT none 1
        SET c foobar
        BITCOUNT c
        BITCOUNT c 0 0
        BITCOUNT c 1 1
        BITCOUNT c 0 -1
        BITCOUNT c -2 -1
        BITCOUNT c -1 -2
        BITCOUNT c 5 30 BIT
        BITCOUNT c 1 1 BYTE
        BITCOUNT c 0 -5 BIT
        BITCOUNT c 3 2
        BITCOUNT c 0
        BITCOUNT c x 1
        BITCOUNT c 0 x
        BITCOUNT c 0 1 FOO
        BITCOUNT c 0 1 BIT x
        BITCOUNT none
        BITCOUNT none 0 1 BIT
        BITCOUNT none 0
        SET p \xff\xf0\x00
        BITPOS p 0
        BITPOS p 1
        BITPOS p 1 2
        BITPOS p 0 0 0
        BITPOS p 0 1
        BITPOS p 0 0 0 BIT
        BITPOS p 0 0 12 BIT
        BITPOS p 1 -1
        BITPOS p 1 -3 -2
        BITPOS p 1 5 2
        BITPOS p 2
        BITPOS p x
        BITPOS p 1 x
        BITPOS p 1 0 x
        BITPOS p 1 0 1 FOO
        BITPOS p 1 0 1 BIT x
        BITPOS none 0
        BITPOS none 1
        SET full \xff\xff
        BITPOS full 0
        BITPOS full 0 0
        BITPOS full 0 0 -1
        BITPOS full 0 0 15 BIT
        SET nothing ''
        BITPOS nothing 0
        BITPOS nothing 1
        MSET x abc y abcdef z \x00\xff
        BITOP AND d x y
        GET d
        BITOP OR d x y z
        GET d
        BITOP XOR d x y z
        GET d
        BITOP NOT d z
        GET d
        BITOP NOT d x y
        BITOP FOO d x
        BITOP AND d none
        EXISTS d
        BITOP AND d x none
        GET d
        BITOP OR d none none
        BITOP AND d
    """,
    "bitfield": """
        BITFIELD a INCRBY i5 100 1 GET u4 0
        BITFIELD a SET u8 0 255 GET u8 0 GET i8 0
        BITFIELD a SET i8 #1 -1 GET u8 #1
        BITFIELD a INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
        BITFIELD a INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
        BITFIELD a INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
        BITFIELD a INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1
        BITFIELD a OVERFLOW FAIL INCRBY u2 102 1
        BITFIELD a OVERFLOW WRAP INCRBY i8 0 127 INCRBY i8 0 127
        BITFIELD a OVERFLOW SAT INCRBY i8 0 -128 INCRBY i8 0 -128
        BITFIELD a OVERFLOW FAIL SET u4 0 100
        BITFIELD a OVERFLOW SAT SET u4 0 100 GET u4 0
        BITFIELD a OVERFLOW SAT SET u4 0 -1 GET u4 0
        BITFIELD a SET i4 0 100 GET i4 0
        BITFIELD a SET i64 3 -9223372036854775808 GET i64 3
        BITFIELD a INCRBY i64 3 -1
        BITFIELD a OVERFLOW SAT INCRBY i64 3 -1
        BITFIELD a OVERFLOW FAIL INCRBY i64 3 9223372036854775807 INCRBY i64 3 9223372036854775807
        BITFIELD a SET u63 7 9223372036854775807 GET u63 7
        BITFIELD a INCRBY u63 7 1
        BITFIELD a GET u64 0
        BITFIELD a GET i65 0
        BITFIELD a GET i0 0
        BITFIELD a GET x8 0
        BITFIELD a GET 8 0
        BITFIELD a GET u8
        BITFIELD a GET u8 -1
        BITFIELD a GET u8 x
        BITFIELD a GET u8 #x
        BITFIELD a SET u8 0 x
        BITFIELD a SET u8 0
        BITFIELD a OVERFLOW FOO
        BITFIELD a FOO
        BITFIELD a OVERFLOW SAT
        BITFIELD a
        BITFIELD none GET u8 0
        EXISTS none
        BITFIELD none OVERFLOW FAIL SET u8 0 256
        GET none
        BITFIELD_RO a GET u8 0 GET u8 8
        BITFIELD_RO a SET u8 0 1
        BITFIELD_RO none GET u8 0
        GET a
    """,
    "keys": f"""
        MSET a 1 b 2 c 3
        EXISTS a b none a
        DEL a a none
        UNLINK b none
        TOUCH c c none
        TYPE c
        TYPE none
        RENAME c d
        RENAME none e
        RENAME d d
        GET d
        SET e 5 EX 100
        RENAME e d
        TTL d
        RENAMENX d d
        SET f 1
        RENAMENX d f
        RENAMENX d g
        RENAMENX none g
        TTL g
        COPY g h
        TTL h
        COPY g h
        COPY g h REPLACE
        COPY none h
        COPY g g
        COPY g i DB 0
        COPY g i DB x
        COPY g i FOO
        COPY g
        DEL
        EXISTS
        TYPE
        RENAME a
        DBSIZE
        FLUSHDB
        DBSIZE
        RANDOMKEY
        SET only 1
        RANDOMKEY
        KEYS *
        KEYS o?ly
        KEYS x*
        FLUSHALL ASYNC
        FLUSHALL SYNC
        FLUSHALL FOO
        KEYS *
        SCAN 0
        SCAN x
        SCAN 0 COUNT 0
        SCAN 0 COUNT x
        SCAN 0 FOO
        SCAN 0 MATCH
        SCAN 0 TYPE string
    """,
    "expiry": f"""
        SET a 1
        TTL a
        PTTL a
        TTL none
        EXPIRETIME a
        PEXPIRETIME none
        EXPIRE a 100
        TTL a
        PEXPIRE a 100000
        PTTL a
        EXPIREAT a {FAR}
        EXPIRETIME a
        PEXPIRETIME a
        PEXPIREAT a {FAR_MS}
        EXPIRETIME a
        PEXPIRETIME a
        PERSIST a
        PERSIST a
        PERSIST none
        EXPIRE none 10
        EXPIRE a 100 XX
        EXPIRE a 100 NX
        EXPIRE a 200 NX
        EXPIRE a 50 GT
        EXPIRE a 300 GT
        EXPIRE a 400 LT
        EXPIRE a 50 LT
        TTL a
        EXPIRE a 10 XX GT
        EXPIRE a 10 NX XX
        EXPIRE a 10 NX GT
        EXPIRE a 10 GT LT
        EXPIRE a 10 FOO
        EXPIRE a x
        EXPIRE a 9223372036854775807
        EXPIRE a -9223372036854775808
        PEXPIRE a 9223372036854775807
        EXPIREAT a 9223372036854775807
        PERSIST a
        EXPIRE a 10 GT
        EXPIRE a 10 LT
        EXPIRE a 0
        EXISTS a
        SET a 1
        EXPIRE a -1
        GET a
        SET a 1
        PEXPIREAT a 1
        GET a
        SET a 1 EX 100
        APPEND a 2
        TTL a
        SET n 1 EX 100
        INCR n
        TTL n
        SETRANGE n 0 5
        TTL n
        SETBIT n 1 1
        TTL n
        GETSET n 1
        TTL n
        EXPIRE a
    """,
    "connection": """
        PING
        PING hello
        PING a b
        ECHO hi
        ECHO
        SELECT 0
        SELECT x
        SELECT -1
        SELECT 100000
        CLIENT SETNAME me
        CLIENT GETNAME
        CLIENT SETNAME 'a b'
        CLIENT SETNAME ''
        CLIENT GETNAME
        CLIENT FOO
        CLIENT
        CLIENT GETNAME x
        CLIENT NO-EVICT ON
        CLIENT NO-EVICT OFF
        CLIENT NO-EVICT FOO
        CLIENT REPLY ON
        CLIENT REPLY FOO
        CLIENT INFO x
        CLIENT KILL
        CLIENT KILL foo
        CLIENT KILL ''
        CLIENT KILL 127.0.0.1:1
        CLIENT KILL ID
        CLIENT KILL ID x
        CLIENT KILL ID 0
        CLIENT KILL ID 99999999
        CLIENT KILL ID 1 FOO
        CLIENT KILL FOO bar
        CLIENT KILL TYPE foo
        CLIENT KILL TYPE pubsub
        CLIENT KILL USER foo
        CLIENT KILL SKIPME foo
        CLIENT KILL ADDR 1.2.3.4:5
        CLIENT KILL LADDR 1.2.3.4:5 SKIPME no
        CLIENT LIST TYPE
        CLIENT LIST TYPE foo
        CLIENT LIST TYPE pubsub
        CLIENT LIST ID
        CLIENT LIST ID -1
        CLIENT LIST ID x
        CLIENT LIST ID 99999999
        CLIENT LIST FOO
        CLIENT LIST TYPE normal ID 3
        CLIENT PAUSE
        CLIENT UNPAUSE
        ROLE x
        WAIT x 0
        WAIT 0 x
        WAIT 0 -1
        WAIT 0
        HELLO 4
        HELLO x
        HELLO 2 FOO
        HELLO 2 SETNAME 'a b'
        HELLO 2 AUTH default
        AUTH a b c
        AUTH x
        AUTH nobody x
        AUTH default x
        AUTH
        NOSUCH
        NOSUCH a b
        CONFIG GET
        CONFIG FOO
        CONFIG GET save
        CONFIG GET appendonly
        CONFIG GET nosuch
        COMMAND GETKEYS GET a
        COMMAND GETKEYS MSET a 1 b 2
        COMMAND GETKEYS BITOP AND d a b
        COMMAND GETKEYS PING
        COMMAND GETKEYS NOSUCH
        COMMAND GETKEYS GET
        COMMAND GETKEYS
        COMMAND FOO
        COMMAND INFO nosuch
        COMMAND INFO get
        COMMAND INFO copy rename append bitop lcs strlen expire getdel
        COMMAND LIST FILTERBY
        COMMAND LIST FILTERBY MODULE
        COMMAND LIST FILTERBY MODULE foo
        COMMAND LIST FILTERBY ACLCAT foo
        COMMAND LIST FILTERBY PATTERN BITFIELD_*
        COMMAND LIST FILTERBY PATTERN object|enc*
        COMMAND LIST FILTERBY FOO x
        COMMAND LIST FOO
        COMMAND GETKEYS OBJECT ENCODING x
        COMMAND GETKEYS MEMORY USAGE x
        COMMAND GETKEYSANDFLAGS GET a
        COMMAND GETKEYSANDFLAGS SET a b
        COMMAND GETKEYSANDFLAGS SET a b GET
        COMMAND GETKEYSANDFLAGS BITFIELD a GET u8 0
        COMMAND GETKEYSANDFLAGS BITFIELD a SET u8 0 1
        COMMAND GETKEYSANDFLAGS RENAME a b
        COMMAND GETKEYSANDFLAGS BITOP AND d a b
        COMMAND GETKEYSANDFLAGS MSETNX a 1 b 2
        COMMAND GETKEYSANDFLAGS PING x
        COMMAND GETKEYSANDFLAGS NOSUCH x
        COMMAND GETKEYSANDFLAGS GET a b
        COMMAND GETKEYSANDFLAGS
        TIME x
    """,
    "monitoring": """
        CONFIG|GET
        CONFIG|GET save
        CLIENT|ID x
        CONFIG SET
        CONFIG SET maxclients
        CONFIG SET maxclients 100 x
        CONFIG SET nosuch 1
        CONFIG SET maxclients x
        CONFIG SET maxclients 99999999999999999999
        CONFIG SET databases 3
        CONFIG SET maxclients 100 databases 3
        CONFIG SET maxclients 100 nosuch 3
        CONFIG SET maxclients 100 MAXCLIENTS 200
        CONFIG SET slowlog-log-slower-than x
        CONFIG SET client-query-buffer-limit x
        CONFIG SET client-output-buffer-limit normal
        CONFIG SET client-output-buffer-limit "nosuch 1mb 0 0"
        CONFIG SET client-output-buffer-limit "normal x 0 0"
        CONFIG SET save ''
        CONFIG SET SAVE '' appendonly no
        CONFIG GET SAVE s?ve
        CONFIG SET slowlog-log-slower-than -1 slowlog-max-len 100
        CONFIG GET slowlog-max-*
        CONFIG SET client-query-buffer-limit 64mb
        CONFIG GET client-query*
        CONFIG RESETSTAT x
        CONFIG REWRITE x
        SLOWLOG
        SLOWLOG FOO
        SLOWLOG GET x
        SLOWLOG GET -2
        SLOWLOG GET 1 2
        SLOWLOG LEN 1
        SLOWLOG RESET
        SLOWLOG LEN
        SLOWLOG GET
        SLOWLOG GET -1
        MONITOR x
        INFO nosuch
        CONFIG RESETSTAT
        GET
        SET a x
        INCR a
        NOSUCH
        SET
        EXEC
        MULTI
        GET
        EXEC
        INFO errorstats
        CONFIG SET slowlog-log-slower-than 10000 slowlog-max-len 128
    """,
    "object": """
        OBJECT
        OBJECT ENCODING
        OBJECT ENCODING none
        OBJECT REFCOUNT none
        OBJECT IDLETIME none
        OBJECT FREQ none
        OBJECT FOO a
        SET a 1
        OBJECT ENCODING a
        OBJECT REFCOUNT a
        OBJECT FREQ a
        SET a 10000
        OBJECT ENCODING a
        OBJECT REFCOUNT a
        SET a -1
        OBJECT REFCOUNT a
        SET a 01
        OBJECT ENCODING a
        SET a -0
        OBJECT ENCODING a
        SET a 9223372036854775807
        OBJECT ENCODING a
        SET a 9223372036854775808
        OBJECT ENCODING a
        SET a ''
        OBJECT ENCODING a
        SET a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        OBJECT ENCODING a
        SET a xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        OBJECT ENCODING a
        MEMORY
        MEMORY FOO
        MEMORY USAGE
        MEMORY USAGE none
        MEMORY USAGE a SAMPLES
        MEMORY USAGE a SAMPLES x
        MEMORY USAGE a SAMPLES -1
        MEMORY USAGE a FOO 3
        MEMORY PURGE
        MEMORY DOCTOR x
    """,
    "multi": """
        MULTI
        MULTI
        SET a 1
        INCR a
        GET a
        EXEC
        EXEC
        DISCARD
        MULTI
        SET b 1
        DISCARD
        GET b
        MULTI
        NOSUCH
        SET b 1
        EXEC
        GET b
        MULTI
        GET
        EXEC
        SET t text
        MULTI
        INCR t
        SET b 2
        EXEC
        GET b
        MULTI
        EXEC
        WATCH a
        MULTI
        SET a 5
        EXEC
        WATCH a
        SET a 6
        MULTI
        SET a 7
        EXEC
        GET a
        WATCH a b c
        SET c 1
        UNWATCH
        MULTI
        SET a 8
        EXEC
        WATCH none
        MULTI
        WATCH a
        GET a
        UNWATCH
        EXEC
        WATCH none
        SET none 1
        MULTI
        GET none
        EXEC
        WATCH none
        DEL none
        SET none 1
        MULTI
        GET none
        EXEC
        WATCH a
        MULTI
        DISCARD
        SET a 9
        MULTI
        GET a
        EXEC
        WATCH
        MULTI x
        MULTI
        PING
        ECHO x
        EXEC
        EXEC x
        MULTI
        SET a 10
        EXEC x
        EXEC
        GET a
    """,
}.items()}

# For what is said of commands afterwards: one of every kind.
MONITORED = lines(f"""
    SET a 1
    set a "x \\x01\\n\\"\\xc3"
    INCR a
    SET a 1 NOSUCH
    GET
    NOSUCH
    CLIENT
    CLIENT ID
    CLIENT NOSUCH
    MULTI
    GET a
    INCR a
    EXEC
    MULTI
    SET
    EXEC
    EXEC
    WATCH a
    SET a 2
    MULTI
    GET a
    EXEC
    AUTH nobody secret
    AUTH
    HELLO 2 AUTH nobody secret
    HELLO 2 SETNAME bob
    CONFIG GET save
    CONFIG SET nosuch 1
    CONFIG SET requirepass
    MGET a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i
    APPEND long {'a' * 140}
    DEL long
    SCAN x
    SELECT x
    PING
    ECHO last
""")


def keys(source, count=1):
    return [source.choice("abcdefgh") for _ in range(count)]


def number(source):
    return str(source.choice([0, 1, -1, 2, 5, 7, 8, 15, 31, 100, -100, 2**31, 2**63 - 1, -2**63, source.randrange(64)]))


def value(source):
    return source.choice(["", "x", "10", "-5", "3.25", "text", "\x00\xff\x0f", "a" * source.randrange(40),
                          str(source.randrange(1000))]).encode("latin-1")


def offset(source):
    return str(source.choice([0, 1, 7, 8, 63, 200, source.randrange(300)]))


def field(source):
    kind = source.choice("iu")
    return f"{kind}{source.randrange(1, 65 if kind == 'i' else 64)}"


def bitfield(source):
    words = []
    for _ in range(source.randrange(1, 4)):
        if source.random() < 0.3:
            words += ["OVERFLOW", source.choice(["WRAP", "SAT", "FAIL"])]
        place = source.choice(["", "#"]) + str(source.randrange(20))
        words += source.choice([["GET", field(source), place], ["SET", field(source), place, number(source)],
                                ["INCRBY", field(source), place, number(source)]])
    return words


def deadline(source):
    return source.choice([["EX", "1000"], ["PX", "1000000"], ["EXAT", str(FAR)], ["PXAT", str(FAR_MS)], ["KEEPTTL"],
                          ["PERSIST"], []])


def random_command(source, timed=True):
    """`timed`: also those whose answer has a time in it that passes."""
    one, two = keys(source, 2)
    choices = [
        lambda: ["SET", one, value(source), *deadline(source), *source.choice([[], ["NX"], ["XX"], ["GET"], ["XX", "GET"]])],
        lambda: ["GET", one],
        lambda: ["GETEX", one, *deadline(source)],
        lambda: ["GETDEL", one],
        lambda: ["GETSET", one, value(source)],
        lambda: ["SETNX", one, value(source)],
        lambda: ["APPEND", one, value(source)],
        lambda: ["STRLEN", one],
        lambda: ["GETRANGE", one, number(source), number(source)],
        lambda: ["SETRANGE", one, offset(source), value(source)],
        lambda: ["MSET", one, value(source), two, value(source)],
        lambda: ["MSETNX", one, value(source), two, value(source)],
        lambda: ["MGET", *keys(source, 3)],
        lambda: [source.choice(["INCR", "DECR"]), one],
        lambda: [source.choice(["INCRBY", "DECRBY"]), one, number(source)],
        lambda: ["INCRBYFLOAT", one, source.choice(["1", "0.1", "-2.5", "1e10", "x"])],
        lambda: ["LCS", one, two, *source.choice([[], ["LEN"], ["IDX"], ["IDX", "WITHMATCHLEN", "MINMATCHLEN", "2"]])],
        lambda: ["SETBIT", one, offset(source), source.choice("01")],
        lambda: ["GETBIT", one, offset(source)],
        lambda: ["BITCOUNT", one, *source.choice([[], [number(source), number(source)],
                                                  [number(source), number(source), source.choice(["BIT", "BYTE"])]])],
        lambda: ["BITPOS", one, source.choice("01"),
                 *source.choice([[], [number(source)], [number(source), number(source)],
                                 [number(source), number(source), source.choice(["BIT", "BYTE"])]])],
        lambda: ["BITOP", source.choice(["AND", "OR", "XOR"]), one, *keys(source, source.randrange(1, 4))],
        lambda: ["BITOP", "NOT", one, two],
        lambda: ["BITFIELD", one, *bitfield(source)],
        lambda: ["BITFIELD_RO", one, "GET", field(source), offset(source)],
        lambda: [source.choice(["DEL", "UNLINK", "EXISTS", "TOUCH"]), *keys(source, source.randrange(1, 4))],
        lambda: ["TYPE", one],
        lambda: [source.choice(["RENAME", "RENAMENX", "COPY"]), one, two],
        lambda: ["COPY", one, two, "REPLACE"],
        lambda: ["EXPIREAT", one, str(FAR - source.randrange(10)), *source.choice([[], ["NX"], ["XX"], ["GT"], ["LT"]])],
        lambda: ["PEXPIREAT", one, source.choice(["1", str(FAR_MS - source.randrange(100))])],
        lambda: ["PERSIST", one],
        lambda: ["PING"],
        lambda: ["ECHO", value(source)],
    ]
    if timed:
        choices += [
            lambda: [source.choice(["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), one],
            lambda: ["EXPIRE", one, source.choice(["0", "-1", "1000", "5000"])],
        ]
    return source.choice(choices)()
