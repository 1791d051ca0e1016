"""What the client scripts share: one process for each GPU, steps with a limit of time, one table at the end.

A script calls `main(body, ...)`. Called by a person, it starts itself once for each rank and prints the table of what they report;
started so, it runs `body(rank)`, which takes its steps with `rank.step(name, function)`.

    --ranks N      ranks, by default RANKS of the environment or all GPUs
    --timeout S    for each step
"""
import argparse
import faulthandler
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback


class Failed(Exception):
    """A result is wrong. The steps that follow can still be taken."""


class Rank:
    def __init__(self, options):
        self.options = options
        self.number = int(os.environ["RANK"])
        self.count = int(os.environ["WORLD_SIZE"])
        self.report = open(os.path.join(os.environ["CLIENT_REPORTS"], f"{self.number}.jsonl"), "w", buffering=1)
        self.failed = False

    def say(self, **what):
        self.report.write(json.dumps(what) + "\n")

    def step(self, name, function, timeout=None):
        """Runs it. A wrong result is noted; any other error, or no end in time, ends the rank: the others cannot be met again."""
        limit = timeout or self.options.timeout
        self.say(name=name, state="begun")
        faulthandler.dump_traceback_later(limit, exit=True)
        start = time.monotonic()
        try:
            function()
            state = "ok"
        except Failed as error:
            print(f"rank {self.number}: {name}: {error}", file=sys.stderr, flush=True)
            state, self.failed = "FAILED", True
        except BaseException:
            print(f"rank {self.number}: {name}:", file=sys.stderr, flush=True)
            traceback.print_exc()
            self.say(name=name, state="FAILED", seconds=time.monotonic() - start)
            sys.stderr.flush()
            os._exit(1)
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.say(name=name, state=state, seconds=time.monotonic() - start)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def gpu_count():
    try:
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, check=True).stdout
        return len(listed.strip().splitlines())
    except (OSError, subprocess.CalledProcessError):
        return 0


def library_of_process():
    """The file of the NCCL library that this process has loaded."""
    for line in open("/proc/self/maps"):
        path = line.split()[-1]
        if os.path.basename(path).startswith("libnccl"):
            return os.path.realpath(path)
    return "none"


def merged(reports, count):
    """name -> (state, seconds), in the order of the first rank that took the step; a step is as bad as its worst rank,
    and bad if a rank did not come to it."""
    steps, skipped = {}, {}
    for number in range(count):
        path = os.path.join(reports, f"{number}.jsonl")
        for line in open(path) if os.path.exists(path) else ():
            what = json.loads(line)
            if "skip" in what:
                skipped[what["skip"]] = what["why"]
                continue
            name, state = what["name"], what["state"]
            rows = steps.setdefault(name, {})
            rows[number] = (state, what.get("seconds", 0.0))
    table = []
    for name, rows in steps.items():
        states = [state for state, _ in rows.values()]
        good = len(states) == count and all(state == "ok" for state in states)
        table.append((name, "ok" if good else "FAILED", max(seconds for _, seconds in rows.values())))
    return table, skipped


def start_ranks(options, reports, script):
    environment = dict(os.environ, WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
                       CLIENT_REPORTS=reports)
    return [subprocess.Popen([sys.executable, script] + sys.argv[1:],
                             env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)), start_new_session=True)
            for rank in range(options.ranks)]


def end_with_ranks():
    """A signal to end this process ends its ranks too, as an exception would."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def stop(processes):
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    for process in processes:
        process.wait()


def wait_all(processes, limit, may_die=()):
    """Exit statuses, in order. A rank that fails takes the others with it after a while in which they may say why."""
    end = time.monotonic() + limit
    grace = None
    while any(process.poll() is None for process in processes):
        bad = [i for i, process in enumerate(processes) if process.poll() not in (None, 0) and i not in may_die]
        if bad and grace is None:
            grace = time.monotonic() + 20
        if time.monotonic() > end or (grace and time.monotonic() > grace):
            stop(processes)
        time.sleep(0.05)
    return [process.returncode for process in processes]


def parser_of(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--ranks", type=int, default=int(os.environ.get("RANKS", 0)) or gpu_count() or 2)
    parser.add_argument("--timeout", type=int, default=120, help="seconds for each step")
    parser.add_argument("--limit", type=int, default=1800, help="seconds in all")
    return parser


def main(body, description, arguments=None, may_die=(), at_end=None):
    """`arguments(parser)` adds the script's own; ranks in `may_die` may end in any way; `at_end(options, reports)` adds rows."""
    parser = parser_of(description)
    if arguments:
        arguments(parser)
    options = parser.parse_args()
    if "CLIENT_REPORTS" in os.environ:
        faulthandler.enable()
        rank = Rank(options)
        body(rank)
        sys.stdout.flush()
        sys.exit(1 if rank.failed else 0)
    end_with_ranks()
    with tempfile.TemporaryDirectory() as reports:
        processes = start_ranks(options, reports, os.path.abspath(sys.argv[0]))
        try:
            statuses = wait_all(processes, options.limit, may_die)
        finally:
            stop(processes)
        table, skipped = merged(reports, options.ranks)
        if at_end:
            table += at_end(options, reports)
    for name, state, seconds in table:
        print(f"{name:<44} {state:<6} {seconds:8.2f}")
    for name, why in skipped.items():
        print(f"{name:<44} skipped: {why}")
    bad = [rank for rank, status in enumerate(statuses) if status != 0 and rank not in may_die]
    if bad:
        print(f"ranks {bad} ended with {[statuses[rank] for rank in bad]}")
    failed = not table or bad or any(state != "ok" for _, state, _ in table)
    print("FAILED" if failed else f"{len(table)} ok")
    sys.exit(1 if failed else 0)
