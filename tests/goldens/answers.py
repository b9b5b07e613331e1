"""Asks Anneal: a question in JSON on a line, its answer on the next.

The program is `cargo build --package anneal-models --example answer`; ANNEAL_ANSWER names another one.
"""

import json
import os
import subprocess
from pathlib import Path

PROGRAM = Path(__file__).parents[2] / "target" / "debug" / "examples" / "answer"


class Anneal:
    """The running program."""

    def __init__(self):
        program = os.environ.get("ANNEAL_ANSWER", str(PROGRAM))
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **question):
        """The answer, which has `error` where there is none."""
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"Anneal ended with {self.process.wait()} at {json.dumps(question)[:2000]}")
        return json.loads(line)


def report(differences, total, what):
    """Prints what differed, at most ten in full, and returns the exit code."""
    for difference in differences[:10]:
        print(json.dumps(difference, ensure_ascii=False, indent=1))
    print(f"{what}: {total - len(differences)} of {total} equal")
    return 1 if differences else 0
