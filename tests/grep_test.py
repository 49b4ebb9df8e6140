#!/usr/bin/env python3
"""What the code must not say.

Time, randomness and order come in by constructor, so that one seed decides a whole run: clocks, random sources and
walks over unordered containers stay inside src/weft/base. The rest is about a tree that is fit to be read: no notes
about unfinished work, no paths of one machine, `#pragma once` in every header. Long files are reported, not refused.
What docs/rules.md names as the place where a rule is enforced must exist.
"""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["src", "include", "examples", "tests"]
LINES_ASKED = 400

# In code, that is outside comments and string literals, and outside base/.
ENTROPY = [
    ("reads a clock", re.compile(r"\w+_clock\s*::\s*now\b|\bchrono\s*::[\w:\s]*::\s*now\b")),
    ("reads a clock", re.compile(r"\b(?:clock_gettime|gettimeofday|__rdtscp?|__builtin_ia32_rdtscp?)\b")),
    ("reads a clock", re.compile(r"(?<![\w.>])time\s*\(\s*(?:nullptr|NULL|0|&)")),
    ("draws from the machine's entropy", re.compile(r"\brandom_device\b|\bgetrandom\b|\bgetentropy\b")),
    ("uses the C library's generator", re.compile(r"(?<![\w.>])(?:s?rand|srandom|[delmn]rand48)\s*\(")),
]

# Anywhere, comments and strings too.
WORDS = [
    ("leaves work open", re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")),
    ("names a path of one machine", re.compile(r"(?<![\w./])/(?:work|root|home|tmp)/")),
]

COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
UNORDERED = re.compile(r"\b(?:unordered_(?:multi)?(?:map|set)|(?:flat|node)_hash_(?:map|set))\s*<")


def strip(text):
    """The code alone; everything keeps its place."""
    return COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def strip_comments(text):
    return COMMENT_OR_STRING.sub(lambda m: "" if m.group().startswith("/") else m.group(), text)


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def after_angle_brackets(text, at):
    """The position behind the bracket that closes the one before `at`."""
    depth = 1
    while at < len(text) and depth:
        depth += {"<": 1, ">": -1}.get(text[at], 0)
        at += 1
    return at


def unordered_names(code):
    """Variables and members of an unordered type, directly or by an alias of this code."""
    names, aliases = set(), set()
    for match in UNORDERED.finditer(code):
        before = re.search(r"\busing\s+(\w+)\s*=\s*(?:std|absl)?\s*(?:::)?\s*$", code[:match.start()])
        if before:
            aliases.add(before.group(1))
            continue
        name = re.match(r"\s*[&*]*\s*(\w+)\s*(?![\w(]|\s*::)", code[after_angle_brackets(code, match.end()):])
        if name:
            names.add(name.group(1))
    for alias in aliases:
        names.update(re.findall(rf"\b{alias}\b\s*[&*]*\s*(\w+)\s*[;={{,)]", code))
    return names


def walks(code, names):
    for name in sorted(names):
        walk = re.compile(rf"\bfor\s*\([^;()]*:\s*(?:[\w.]|->|\*)*(?<!\w){name}\s*\)|(?<!\w){name}\s*(?:\.|->)\s*c?begin\s*\("
                          rf"|\bc?begin\s*\(\s*{name}\s*\)")
        for match in walk.finditer(code):
            yield match.start(), name


def check_file(root, path):
    where = path.relative_to(root)
    text = path.read_text()
    findings = [(match.start(), what) for what, pattern in WORDS for match in pattern.finditer(text)]
    code = strip(text)
    if where.parts[:3] != ("src", "weft", "base"):
        findings += [(match.start(), what) for what, pattern in ENTROPY for match in pattern.finditer(code)]
        twin = path.with_suffix(".h" if path.suffix == ".cc" else ".cc")
        names = unordered_names(code + (strip(twin.read_text()) if twin.is_file() else ""))
        findings += [(at, f"walks over {name}, which has no order") for at, name in walks(code, names)]
    if path.suffix == ".h" and not re.search(r"^#pragma once$", text, re.MULTILINE):
        findings.append((0, "has no #pragma once"))
    return [f"{where}:{line_of(text, at)}: {what}" for at, what in findings]


def files(root):
    return sorted(p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in (".h", ".cc"))


def check(root):
    return [finding for path in files(root) for finding in check_file(root, path)]


def long_files(root):
    lengths = ((len(path.read_text().splitlines()), path.relative_to(root)) for path in files(root))
    return sorted((entry for entry in lengths if entry[0] > LINES_ASKED), reverse=True)


def class_bodies(code):
    """By name of a class: the text of its body and of its members that are defined outside, of all that have the name."""
    bodies = {}
    for match in re.finditer(r"\b(?:class|struct)\s+(\w+)[^;(){}]*\{", code):
        depth, at = 1, match.end()
        while at < len(code) and depth:
            depth += {"{": 1, "}": -1}.get(code[at], 0)
            at += 1
        bodies.setdefault(match.group(1), set()).update(re.findall(r"\w+", code[match.end():at]))
    for name, member in re.findall(r"\b(\w+)::(\w+)", code):
        bodies.setdefault(name, set()).add(member)
    return bodies


def check_rules(text, code):
    """Names of code on the page of the rules that the code does not have."""
    bodies = class_bodies(code)
    functions = set(re.findall(r"\b(\w+)\s*\(", code))
    findings = [f"{name}::{member} does not exist" for name, member in re.findall(r"`(\w+)::(\w+)`", text)
                if member not in bodies.get(name, ())]
    enforced = re.findall(r"^- \*Enforced:\*(.*?)(?=^- \*|^$)", text, re.DOTALL | re.MULTILINE)
    for table in re.findall(r"^\| cite as \|.*?(?=^$|\Z)", text, re.DOTALL | re.MULTILINE):
        enforced += [row.split("|")[3] for row in table.splitlines()]
    findings += [f"{name}, which is to enforce a rule, is no function" for part in enforced
                 for name in re.findall(r"`([a-z]\w*)`", part) if name not in functions and not is_row(name, code)]
    return findings


def is_row(name, code):
    return re.search(rf"\.name = \W{name}\W", code) is not None


class Rules(unittest.TestCase):
    CODE = "class Table { void lock(); };\nbool Table::unlock() {}\nvoid decide(int);\n"

    def test_names(self):
        self.assertEqual(check_rules("`Table::lock`, `Table::unlock`\n- *Enforced:* table, `decide`, `table.h`.\n",
                                     self.CODE), [])
        self.assertEqual(len(check_rules("`Table::swap`", self.CODE)), 1)
        self.assertEqual(len(check_rules("`Tables::lock`", self.CODE)), 1)
        self.assertEqual(len(check_rules("- *Enforced:* x,\n  `decided`.\n- *Shown:* `nothing`\n", self.CODE)), 1)
        table = "| cite as | rule | enforced in | shown by |\n|---|---|---|---|\n| a | b `x` | `{}` | `y` |\n"
        self.assertEqual(check_rules(table.format("decide"), self.CODE), [])
        self.assertEqual(len(check_rules(table.format("decides"), self.CODE)), 1)

    def test_this_tree(self):
        code = "\n".join(path.read_text() for path in files(ROOT) if path.parts[len(ROOT.parts)] in ("src", "include")
                         and not path.stem.endswith(("_test", "_testing", "_bench")))
        found = check_rules((ROOT / "docs/rules.md").read_text(), strip_comments(code))
        self.assertEqual(found, [], "\n" + "\n".join(found))


class Grep(unittest.TestCase):
    def findings(self, text, name="src/weft/txn/x.cc", **others):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, content in {name: text, **others}.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content)
            return check(root)

    def assert_finds(self, text, what, line=1, **others):
        found = self.findings(text, **others)
        self.assertEqual(len(found), 1, f"{text}: {found}")
        self.assertIn(what, found[0])
        self.assertIn(f":{line}:", found[0])

    def test_clocks(self):
        for text in ["auto t = std::chrono::steady_clock::now();", "system_clock::now()", "clock_gettime(0, &t);",
                     "std::time(nullptr)", "time(NULL)", "__rdtsc()", "gettimeofday(&t, 0);"]:
            self.assert_finds(text, "clock")

    def test_randomness(self):
        for text in ["std::random_device d;", "int x = rand();", "srand(1);", "std::rand()", "getrandom(p, 8, 0);"]:
            self.assertEqual(len(self.findings(text)), 1, text)

    def test_base_may(self):
        self.assertEqual(self.findings("clock_gettime(0, &t); rand();", name="src/weft/base/clock.cc"), [])

    def test_what_only_looks_like_it(self):
        for text in ["// time(nullptr) and rand() are not called", 'log("time(0)");', "run_time(0); x.time(0);",
                     "operand(1); p->rand(); strand(2);", "Random random(1);", "Random& random() { return random_; }", "/* steady_clock::now() */", "char c = 'a'; clock.now_ns();",
                     "int n = 1'000; int m = 2'000;"]:
            self.assertEqual(self.findings(text), [], text)

    def test_walks(self):
        declared = "std::unordered_map<int, std::vector<std::pair<int, int>>> by_key_;\n"
        for walk in ["for (auto& [k, v] : by_key_) {}", "for (const auto& e : this->by_key_) {}", "by_key_.begin();",
                     "for (auto& e : other.by_key_) {}", "std::begin(by_key_);"]:
            self.assert_finds(declared + walk, "walks over by_key_", line=2)
        for use in ["by_key_.find(3);", "for (auto& e : by_key) {}", "for (int k : keys) by_key_.erase(k);",
                    "by_key_[3].begin();"]:
            self.assertEqual(self.findings(declared + use), [], use)

    def test_walk_over_alias_and_over_the_header_s_member(self):
        self.assert_finds("using Map = std::unordered_set<int>;\nMap seen;\nfor (int i : seen) {}", "seen", line=3)
        self.assert_finds("\nfor (int i : seen_) {}", "seen_", line=2,
                          **{"src/weft/txn/x.h": "#pragma once\nstd::unordered_set<int> seen_;\n"})

    def test_words(self):
        self.assert_finds("\n// TODO: finish", "open", line=2)
        self.assert_finds('open("/tmp/x");', "path")
        self.assertEqual(self.findings("// a/tmp/x and see docs/work/x"), [])

    def test_pragma_once(self):
        self.assertIn("pragma", self.findings("int x;", name="include/weft/x.h")[0])

    def test_line_numbers_survive_stripping(self):
        self.assert_finds('/* a\nb */ auto s = R"(x\ny)";\nrand();', "generator", line=4)

    def test_this_tree(self):
        for lines, path in long_files(ROOT):
            print(f"warning: {path} has {lines} lines; over {LINES_ASKED} it asks to be split")
        found = check(ROOT)
        self.assertEqual(found, [], "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
