"""Starts the real program by the real torchrun, on the processor, which a test build can do.

usage: peer_ranks.py target/debug/anneal        (torchrun beside this Python; PyTorch for the CPU is enough)
Ends with 0 where losses of two ranks are those of one, and a killed rank ends the run in time and lets it resume.
"""

import json, os, pathlib, signal, subprocess, sys, tempfile, time

ANNEAL = os.path.abspath(sys.argv[1])
TORCHRUN = str(pathlib.Path(sys.executable).with_name("torchrun"))
PLAN = """method: scratch
name: animals
data: {{files: [animals.txt], rows: lines}}
scratch: {{vocab_size: 300, config: {{hidden_size: 32, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 2, intermediate_size: 64}}}}
batch: {{rows: 4, accumulate: 2, length: 64}}
steps: {steps}
seed: 3
device: cpu
evaluate: {{every: 0}}
sample: {{every: 0}}
save: {{every: 10}}
"""


def environment(folder):
    return os.environ | {"ANNEAL_HOME": str(folder / "home"), "ANNEAL_RANKS_ON_CPU": "1"}


def torchrun(*more):
    return [TORCHRUN, "--no-python", *more, ANNEAL, "train", "run.yaml", "--json"]


def events(text):
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def losses(command, folder):
    ran = subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=180)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return {it["step"]: it["loss"] for it in events(ran.stdout) if it.get("kind") == "stepped"}


def write(folder, steps):
    animals = [("cat", "meow"), ("dog", "woof"), ("cow", "moo"), ("hen", "cluck"), ("fox", "yip")]
    lines = [f"The {animals[at % 5][0]} says {animals[at % 5][1]}.\n" for at in range(400)]
    (folder / "animals.txt").write_text("".join(lines))
    (folder / "run.yaml").write_text(PLAN.format(steps=steps))


def same_losses(folder):
    write(folder, 12)
    one = losses([ANNEAL, "train", "run.yaml", "--json"], folder)
    assert len(one) == 12, one
    standalone = losses(torchrun("--standalone", "--nproc-per-node", "2"), folder)
    static = losses(torchrun("--nnodes", "1", "--nproc-per-node", "2", "--master-port", "29617"), folder)
    for name, two in (("standalone", standalone), ("static", static)):
        far = max(abs(one[step] - two[step]) for step in one)
        assert two.keys() == one.keys() and far < 1e-4, (name, far)
        print(f"{name}: 12 losses of two ranks are those of one, to {far:.1e}")
    again = losses(torchrun("--standalone", "--nproc-per-node", "1"), folder)
    assert again == one, "one rank of torchrun is no group"


def two_agents(folder):
    write(folder, 12)
    one = losses([ANNEAL, "train", "run.yaml", "--json"], folder)
    agent = torchrun("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:29618",
                     "--rdzv-id", "two", "--local-addr", "127.0.0.1")
    both = [subprocess.Popen(agent, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)]
    said = [it.communicate(timeout=180) for it in both]
    assert [it.returncode for it in both] == [0, 0], said
    two = {it["step"]: it["loss"] for out, _ in said for it in events(out) if it.get("kind") == "stepped"}
    far = max(abs(one[step] - two[step]) for step in one)
    assert two.keys() == one.keys() and far < 1e-4, far
    print(f"two agents on one host: the same, to {far:.1e}")


def engine_of_rank_1():
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if b"RANK=1" in (folder / "environ").read_bytes().split(b"\0") and b"worker" in (folder / "cmdline").read_bytes():
                return int(folder.name)
        except OSError:
            continue
    return None


def killed(folder):
    write(folder, 100_000)
    run = subprocess.Popen(torchrun("--standalone", "--nproc-per-node", "2"), cwd=folder, env=environment(folder),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not any(it.get("kind") == "saved" and it["step"] >= 10 for it in events(run.stdout.readline())):
        assert run.poll() is None, run.stderr.read()[-3000:]
    begun = time.time()
    os.kill(engine_of_rank_1(), signal.SIGKILL)
    _, said = run.communicate(timeout=60)
    took = time.time() - begun
    assert run.returncode != 0 and "is gone; the run ends, and goes on from step" in said, said[-3000:]
    assert took < 10, took
    print(f"kill -9 of rank 1: torchrun ended {took:.1f} s later, and says why")


for test in (same_losses, two_agents, killed):
    with tempfile.TemporaryDirectory() as folder:
        test(pathlib.Path(folder))
