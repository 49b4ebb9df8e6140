"""The protocols to choose from, as the command itself names them: a row that is added is in every test that runs all."""
import subprocess


def names(weft):
    """The rows of the first table of `weft protocols`, but for the one of read-only transactions."""
    table = subprocess.run([weft, "protocols"], capture_output=True, text=True, check=True).stdout.split("\n\n")[0]
    rows = [line.split()[0] for line in table.splitlines()[1:]]
    return [row for row in rows if row != "dnl-ro"]
