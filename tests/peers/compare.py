"""Runs our command and the PyTorch peer in turn and prints the ratio.

    python compare.py lora FOLDER --ours "anneal bench lora FOLDER --json" [--rounds 3]
    python compare.py generate FOLDER --ours "anneal bench generate FOLDER --json"

Our command must end its output with one line of JSON that holds `tokens_per_second`. Both programs run as
children, one after the other, in the same minute, on the same number of threads; the peak of resident memory
is measured from outside, the same way for both. The peer is the faster of its attention implementations,
found in a first round that is not counted. What follows `--` goes to the peer, for example `-- --length 512`.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from shapes import ATTENTIONS, spread

HERE = Path(__file__).parent
PEERS = dict(lora="peer_lora.py", generate="peer_generate.py")


def measure(command, threads):
    """Runs a command to its end; its last line of JSON with the peak resident set added."""
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")}
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(command, stdout=output, env=os.environ | limits)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            sys.exit(f"exit code {child.returncode} from: {shlex.join(command)}")
        output.seek(0)
        result = json.loads(output.read().strip().splitlines()[-1])
    # Linux counts in KiB, macOS in bytes.
    result["peak_resident_bytes"] = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return result


def peer_command(arguments, attention):
    return [
        arguments.python,
        str(HERE / PEERS[arguments.work]),
        str(arguments.folder),
        "--attention",
        attention,
        "--threads",
        str(arguments.threads),
        *arguments.peer_arguments,
    ]


def fastest_attention(arguments):
    """The attention implementation with which the peer is faster here."""
    rates = {
        name: measure(peer_command(arguments, name), arguments.threads)["tokens_per_second"]
        for name in ATTENTIONS
    }
    print(json.dumps(dict(choosing_the_peers_attention=rates)), flush=True)
    return max(rates, key=rates.get)


def ratios(rounds, key):
    """Ours divided by the peer's: of the medians, and round by round."""
    each = spread([ours[key] / peer[key] for ours, peer in rounds])
    medians = [spread([pair[side][key] for pair in rounds])["median"] for side in (0, 1)]
    return dict(
        ours=medians[0],
        peer=medians[1],
        ratio=medians[0] / medians[1],
        lowest_ratio=each["lowest"],
        highest_ratio=each["highest"],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("work", choices=PEERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ours", required=True, help="our command, in quotes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--attention", choices=ATTENTIONS, help="skips the choice")
    parser.add_argument("--python", default=sys.executable, help="the Python that has torch and peft")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:split])
    arguments.peer_arguments = words[split + 1 :]
    attention = arguments.attention or fastest_attention(arguments)
    rounds = []
    for index in range(arguments.rounds):
        ours = measure(shlex.split(arguments.ours), arguments.threads)
        peer = measure(peer_command(arguments, attention), arguments.threads)
        rounds.append((ours, peer))
        print(json.dumps(dict(round=index + 1, ours=ours, peer=peer)), flush=True)
    print(
        json.dumps(
            dict(
                work=arguments.work,
                machine=f"{platform.system()} {platform.machine()}",
                threads=arguments.threads,
                attention=attention,
                rounds=arguments.rounds,
                tokens_per_second=ratios(rounds, "tokens_per_second"),
                peak_resident_bytes=ratios(rounds, "peak_resident_bytes"),
                load_average=os.getloadavg()[0],
            ),
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
