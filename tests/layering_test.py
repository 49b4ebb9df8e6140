#!/usr/bin/env python3
"""The rooms keep their order.

A room under src/weft may include the rooms above it in ROOMS, itself and include/weft; include/weft and the examples
may include include/weft and the standard library. Every source belongs to a known room and is named in that room's
CMakeLists.txt. Headers do not include each other in a circle.
"""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Top to bottom, as the architecture has them; a room that is not built yet keeps its place.
ROOMS = ["base", "run", "fabric", "wires", "member", "store", "far", "txn", "data", "rdt", "device", "cluster", "sim",
         "check", "redis", "server", "bench", "lab", "cli"]

# Inline functions of another header, which includes this one at its end.
INLINE_PARTS = ["weft/store/dlht_ops.h"]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
STANDARD = re.compile(r"[a-z_0-9]+$")


def sources(folder, suffixes=(".h", ".cc")):
    return sorted(p for p in folder.rglob("*") if p.suffix in suffixes) if folder.is_dir() else []


def includes(path):
    return [(kind, name) for kind, name in INCLUDE.findall(path.read_text())]


def room_of(name):
    """The room of an included "weft/room/x.h"; None for the public "weft/x.h"."""
    parts = name.split("/")
    return parts[1] if len(parts) > 2 else None


def check_include(root, where, room, kind, name):
    if not name.startswith("weft/"):
        if kind == '"':
            return f'{where}: includes "{name}": our headers are "weft/...", others <...>'
        if room is None and not STANDARD.match(name):
            return f"{where}: includes <{name}>: the public API needs only the standard library"
        return None
    target = room_of(name)
    folder = "include" if target is None else "src"
    if not (root / folder / name).is_file():
        return f"{where}: includes {name}, which is not under {folder}/"
    if target is None:
        return None
    if room is None:
        return f"{where}: the public API includes {name}"
    if target not in ROOMS:
        return f"{where}: includes {name} of an unknown room"
    if ROOMS.index(target) > ROOMS.index(room):
        return f"{where}: {room} includes {name}, but {target} is below it"
    return None


def check_source_list(root, room):
    """Each .cc of the room is named in its CMakeLists.txt, and each name there is a file."""
    folder = root / "src/weft" / room
    listing = folder / "CMakeLists.txt"
    present = {str(p.relative_to(folder)) for p in sources(folder, (".cc",))}
    if not listing.is_file():
        return [f"src/weft/{room}: has sources but no CMakeLists.txt"] if present else []
    text = re.sub(r"#.*", "", listing.read_text())
    named = set(re.findall(r"[\w./-]+\.cc\b", text))
    findings = [f"src/weft/{room}/{name}: not in the room's CMakeLists.txt" for name in sorted(present - named)]
    findings += [f"src/weft/{room}/CMakeLists.txt: names {name}, which is not there" for name in sorted(named - present)]
    if re.search(r"\bfile\s*\(\s*GLOB", text):
        findings.append(f"src/weft/{room}/CMakeLists.txt: sources are listed one by one, not by GLOB")
    return findings


def check_build_order(root):
    """CMake walks the rooms in the same order."""
    built = re.findall(r"^\s*add_subdirectory\(src/weft/(\w+)\)", (root / "CMakeLists.txt").read_text(), re.MULTILINE)
    unknown = [f"CMakeLists.txt: {room} is no known room" for room in built if room not in ROOMS]
    if not unknown and built != sorted(built, key=ROOMS.index):
        return [f"CMakeLists.txt: the rooms are not in order: {' '.join(built)}"]
    return unknown


def check_circles(root):
    """No header includes itself through others."""
    headers = {"weft/" + str(path.relative_to(folder)): [name for _, name in includes(path)]
               for folder in (root / "src/weft", root / "include/weft") for path in sources(folder, (".h",))}
    for name in INLINE_PARTS:
        headers.pop(name, None)
    done, findings = set(), []

    def visit(name, above):
        if name in above:
            findings.append("headers in a circle: " + " -> ".join(above[above.index(name):] + [name]))
        elif name in headers and name not in done:
            for other in headers[name]:
                visit(other, above + [name])
            done.add(name)

    for name in headers:
        visit(name, [])
    return findings


def check(root):
    findings = check_build_order(root) + check_circles(root)
    for path in sources(root / "src/weft"):
        where = path.relative_to(root)
        room = where.parts[2]
        if len(where.parts) < 4 or room not in ROOMS:
            findings.append(f"{where}: belongs to no known room")
            continue
        findings += filter(None, (check_include(root, where, room, *i) for i in includes(path)))
    for path in sources(root / "include/weft") + sources(root / "examples"):
        where = path.relative_to(root)
        findings += filter(None, (check_include(root, where, None, *i) for i in includes(path)))
    for room in ROOMS:
        findings += check_source_list(root, room)
    return findings


class Layering(unittest.TestCase):
    def findings(self, files):
        """What check() says about a small tree made of `files`, on top of one that is right."""
        right = {"CMakeLists.txt": "add_subdirectory(src/weft/base)\nadd_subdirectory(src/weft/run)\n",
                 "include/weft/types.h": "#include <cstdint>\n",
                 "src/weft/base/a.h": '#include "weft/types.h"\n',
                 "src/weft/run/b.h": '#include "weft/base/a.h"\n#include <xxhash.h>\n'}
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**right, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return check(root)

    def assert_finds(self, files, *words):
        found = self.findings(files)
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def test_right_tree(self):
        self.assertEqual(self.findings({}), [])

    def test_room_below(self):
        self.assert_finds({"src/weft/base/c.h": '#include "weft/run/b.h"\n'}, "base includes weft/run/b.h", "below")

    def test_circle(self):
        self.assert_finds({"src/weft/run/c.h": '#include "weft/run/d.h"\n',
                           "src/weft/run/d.h": '#include "weft/run/b.h"\n#include "weft/run/c.h"\n'}, "circle", "d.h")

    def test_public_header_includes_a_room(self):
        self.assert_finds({"include/weft/x.h": '#include "weft/base/a.h"\n'}, "public API includes weft/base/a.h")

    def test_public_header_includes_a_library(self):
        self.assert_finds({"include/weft/x.h": "#include <fmt/format.h>\n"}, "standard library")

    def test_example_includes_a_room(self):
        self.assert_finds({"examples/x.cc": '#include "weft/base/a.h"\n'}, "examples/x.cc")

    def test_relative_include(self):
        self.assert_finds({"src/weft/base/c.h": '#include "a.h"\n'}, 'includes "a.h"')

    def test_missing_header(self):
        self.assert_finds({"src/weft/base/c.h": '#include "weft/base/gone.h"\n'}, "not under src/")

    def test_unknown_room(self):
        self.assert_finds({"src/weft/attic/c.h": ""}, "no known room")

    def test_no_room(self):
        self.assert_finds({"src/weft/c.h": ""}, "no known room")

    def test_source_not_listed(self):
        self.assert_finds({"src/weft/base/CMakeLists.txt": "weft_room(base SOURCES a.cc) # c.cc\n",
                           "src/weft/base/a.cc": "", "src/weft/base/c.cc": ""}, "base/c.cc: not in")

    def test_listed_source_is_missing(self):
        self.assert_finds({"src/weft/base/CMakeLists.txt": "weft_room(base SOURCES a.cc)\n"}, "names a.cc")

    def test_glob(self):
        self.assert_finds({"src/weft/base/CMakeLists.txt": "file(GLOB all *.h)\n"}, "GLOB")

    def test_build_order(self):
        self.assert_finds({"CMakeLists.txt": "add_subdirectory(src/weft/run)\nadd_subdirectory(src/weft/base)\n"},
                          "not in order")

    def test_this_tree(self):
        found = check(ROOT)
        self.assertEqual(found, [], "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
