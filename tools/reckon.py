"""How long a replayed op takes on n H200s: a sum of few terms, fitted on what was measured on 2. tools/model makes tables of it.

All times are us, sizes bytes, rates bytes/us (1000 of them are 1 GB/s). `ranks` is how many GPUs, a *flow* what one rank has for
another.
"""
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench/results"
K, M, G = 1 << 10, 1 << 20, 1 << 30

# ---- what was measured elsewhere (shared/measurements.md; H200, 2026-11-29), and is no result file of this tree ----

LAUNCH = 0.735    # graph node to node by a programmatic edge, of a kernel that loads and stores 8 KiB: 0.73-0.74
ONE_WAY = 0.68    # a store until a kernel on the peer sees it: 0.61-0.76
GRAPH = 3.6 / 20  # between two graphs, shared by the 20 ops of one (docs/decisions/0003)
BULK_STEP = 8.0   # what a step of the bulk protocol costs besides its data (docs/decisions/0006)
# The raw sketches by lines of 16 bytes: size, one-shot and two-shot on 2 GPUs, the same on 4. None: not there.
SKETCHES = [
    (8, 1.53, None, 2.00, None), (K, 1.58, None, 2.10, None), (16 * K, 1.87, 2.65, 2.49, 3.85),
    (64 * K, 2.04, 2.88, 3.02, 4.21), (128 * K, 2.22, 3.04, 3.79, 4.58), (256 * K, 2.63, 3.41, 5.05, 5.34),
    (512 * K, 3.48, 4.05, 7.22, 6.27), (M, 5.08, 5.72, 11.9, 8.78), (4 * M, None, 15.8, None, 22.9),
]
# Plain stores and loads among all, 4 GPUs over 2: 354 of 362 GB/s, 331 of 336. For more than 4 the same is assumed.
CROWD = {"stores": 354 / 362, "loads": 331 / 336, "both": (354 / 362 + 331 / 336) / 2}
# 1 KiB all-reduce of NCCL's windows without graph mixing, 4 GPUs less 2: the least that others pay for two more peers.
LEAST_FAN = 2.74 - 2.53

# ---- how the library plans (src/plan/plan.c, choose.c, src/comm/limits.c), for the default settings on an H200 ----

LINE, BLOCKS, THREADS, LEAN_THREADS, PER_THREAD, HALF = 16, 128, 256, 512, 8, 8 * M // 16
SHARDED = ("all_reduce", "reduce", "broadcast")
MESSAGES = ("send_recv", "gather", "scatter")


def constant(file, pattern):
    """A number in the C source, so that there is no second place that has to agree with it."""
    found = re.search(pattern, (ROOT / file).read_text())
    if not found:
        sys.exit(f"model: {file} no longer has {pattern}")
    return int(found.group(1))


TRIP_BYTES = 1000 * constant("src/comm/limits.c", r"TRIP_BYTES = (\d+) \* 1000")
LEAN_BYTES = 1000 * constant("src/comm/limits.c", r"LEAN_BYTES = (\d+) \* 1000")
TWO_SHOT_OF_TWO = M * constant("src/comm/limits.c", r"n <= 2 \? (\d+)u << 20")
DIRECT = M * constant("src/comm/paths.c", r"rooted \? (\d+) << 20 : rondo_limits_direct_parts")
DIRECT_PARTS_OF_TWO = M * constant("src/comm/limits.c", r"PARTS_OF_TWO = (\d+) << 20")
DIRECT_PARTS = M * constant("src/comm/limits.c", r"PARTS = (\d+) << 20 }")
BULK = M * constant("src/comm/paths.c", r"rooted \? 32 << 20 : (\d+) << 20;")
DIRECT_MESSAGES = M // 2 * constant("src/comm/paths.c", r": (\d+) << 19;")


def has_lean(ranks):
    return ranks in (2, 4, 8)


def two_shot_from(ranks):
    if ranks == 2:
        return TWO_SHOT_OF_TWO + 1
    return (TRIP_BYTES + (LEAN_BYTES if has_lean(ranks) else 0)) * ranks // ((ranks - 1) * (ranks - 2)) + 1


def direct_from(op, ranks):
    if op in SHARDED:
        return DIRECT
    return DIRECT_PARTS_OF_TWO if ranks <= 2 else DIRECT_PARTS // (ranks - 1) + 1


class Plan:
    """What the library makes of a flow: `way` is lean, lines or direct."""

    def __init__(self, op, ranks, flow, shots=None, direct=None, threads=THREADS):
        sharded = op in SHARDED
        self.op, self.ranks, self.flow = op, ranks, flow
        self.shots = shots or (2 if sharded and flow >= two_shot_from(ranks) else 1)
        span = math.ceil(flow / LINE / (ranks if self.shots == 2 else 1))
        room = HALF // ((ranks - 1) * self.shots)
        if sharded and self.shots == 1 and span > min(room, BLOCKS * THREADS * PER_THREAD):
            self.shots = shots or 2  # a rooted one-shot of several steps is not made; all-reduce is two-shot by then
        if direct is None:
            direct = flow >= direct_from(op, ranks) and (self.shots == 2 or not sharded)
        lean = self.shots == 1 and has_lean(ranks) and span + LEAN_THREADS <= room and span <= LEAN_THREADS * BLOCKS
        widest = LEAN_THREADS if lean else threads
        block = 64 if span <= 64 else 128
        while block < widest and block * BLOCKS < span:
            block *= 2
        self.blocks = max(1, min(BLOCKS, math.ceil(span / block), room // block))
        stride = self.blocks * block
        self.per_thread = max(1, min(math.ceil(span / stride), room // stride, PER_THREAD * THREADS // threads))
        self.steps = math.ceil(span / (stride * self.per_thread))
        self.way = "direct" if direct else "lean" if lean else "lines"

    def bytes(self):
        """That the busiest direction of a GPU's link carries."""
        if self.way == "direct" and self.op in ("broadcast", "reduce"):
            return self.flow  # the root has no shard (kernels/direct.h); between two it is the same
        if self.shots == 2 or (self.way == "direct" and self.op in SHARDED):
            return 2 * (self.ranks - 1) / self.ranks * self.flow
        return (self.ranks - 1) * self.flow

    def rate(self):
        """How they go when they go directly."""
        if self.op in ("all_gather", "all_to_all") or (self.op == "broadcast" and self.ranks == 2):
            return "stores"
        rooted = self.op in ("broadcast", "reduce") and self.ranks > 2
        return "loads" if self.op == "reduce_scatter" or rooted else "both"


def flow_of(op, ranks, size):
    """What one rank has for another, of a size as rondo-perf counts it."""
    return size if op in SHARDED or op == "send_recv" else size / ranks


# ---- the model: a time is a sum of terms, each a parameter times what the plan says ----

def terms(plan, case="expected"):
    """{parameter: factor}. Rates are fitted as their inverses."""
    n, wide = plan.ranks, math.log2(plan.blocks)
    doublings = doublings_of(n, case)
    if plan.way == "direct":
        return {"agree": 1, "fan": 2 * doublings, "1/" + plan.rate(): plan.bytes() / crowd(plan.rate(), n, case)}
    sent = {"1/link": plan.bytes() / crowd("stores", n, case)}
    if plan.steps > 1:  # steps of one launch do not overlap, as launches do
        step = "step" if plan.shots == 1 else "step of two"
        return {step: plan.steps, "fan": plan.shots * plan.steps * doublings, **sent}
    rest = {}
    if plan.way == "lines":
        rest = {"general": 1, "line": math.log2(plan.per_thread)}
    if plan.shots == 2:
        rest["trip"] = 1
    waits = {"start": 1, "wide": wide * (1 + plan.shots * doublings), "fan": plan.shots * doublings}
    return {**waits, **rest, **sent}


def rooted_terms(plan, case="expected"):
    """Of a one-shot broadcast or reduce: its root hears tokens only, so what it sends overlaps the launch before it. The longer of
    two: hearing all tokens, or the busy rank's lines and the launch itself."""
    n, doublings = plan.ranks, doublings_of(plan.ranks, case)
    hear = {"start": 1, "wide": math.log2(plan.blocks) * (1 + doublings), "fan": doublings}
    send = {"pipe": 1, "general": plan.way == "lines", "1/link": plan.bytes() / crowd("stores", n, case)}
    return hear, send


def bulk_time(parameters, plan):
    """The same flow by the bulk protocol: halves of 3/4 the size, twice the lines for each thread, BULK_STEP for each step."""
    stride = BLOCKS * THREADS
    room = HALF * 3 // 4 // ((plan.ranks - 1) * plan.shots)
    span = math.ceil(plan.flow / LINE / (plan.ranks if plan.shots == 2 else 1))
    steps = math.ceil(span / (stride * max(1, min(room // stride, 2 * PER_THREAD))))
    fans = plan.shots * steps * doublings_of(plan.ranks, "expected")
    return BULK_STEP * steps + dot(parameters, {"fan": fans, "1/link": plan.bytes() / crowd("stores", plan.ranks)})


def is_rooted(plan):
    return plan.op in ("reduce", "broadcast") and plan.shots == 1 and plan.way != "direct"


def doublings_of(ranks, case):
    """Of the number of ranks above 2, by which what more peers cost is reckoned. `late`: it grows with the peers instead."""
    return (ranks - 2) / 2 if case == "late" else math.log2(ranks / 2)


def crowd(rate, ranks, case="expected"):
    """`early`: more GPUs slow each other no more than two do; `late`: 8 do it twice as much as 4."""
    if ranks <= 2 or case == "early":
        return 1
    return CROWD[rate] ** (math.log2(ranks / 2) if case == "late" else 1)


def dot(parameters, factors):
    return sum(parameters[name] * factor for name, factor in factors.items())


def time_of(parameters, plan, case="expected"):
    if case == "early":
        parameters = {**parameters, "fan": LEAST_FAN}
    if is_rooted(plan):
        return max(dot(parameters, side) for side in rooted_terms(plan, case))
    return dot(parameters, terms(plan, case))


# Sends and receives. Channels of one peer, as src/comm/limits.c sets them.
def fifo_channels(ranks):
    channels = 1
    while channels < 32 and 2 * channels * (2 * (ranks - 1) + 1) <= BLOCKS:
        channels *= 2
    return channels


def message_terms(op, ranks, size):
    """Of the busiest rank: a ring's neighbours have one peer each way, a root has all."""
    message = flow_of(op, ranks, size)
    peers = 1 if op == "send_recv" else ranks - 1
    channels = fifo_channels(ranks)
    carried = message * peers
    if message >= DIRECT_MESSAGES:
        some = BLOCKS_RATE[min(32, channels * peers)]
        return {"agree of messages": 1, "1/stores": carried / some / crowd("stores", ranks)}
    start = {"message" if op == "send_recv" else "one-way message": 1}
    lines = math.ceil(message / LINE)
    if lines <= channels * THREADS:
        blocks = min(channels, math.ceil(lines / 128))
        return {**start, "wide": math.log2(blocks), "1/link": carried / crowd("stores", ranks)}
    return {**start, "general": 1, "1/fifo": carried * 32 / min(32, channels * peers)}


# Large stores by few blocks: all-gather of 256 MiB between 2, over the rate of 32 (2026-11-30-h200x2-direct.txt).
BLOCKS_RATE = {32: 1.0, 16: 393.2 / 430.2, 8: 393.2 / 650.2}


def message_time(parameters, op, ranks, size):
    return dot(parameters, message_terms(op, ranks, size))


# ---- the fit: least squares of relative errors ----

def solve(rows, known):
    """rows: (factors, measured). Returns the parameters that are not known; linear least squares by normal equations."""
    names = sorted({name for factors, _ in rows for name in factors} - set(known))
    size = len(names)
    matrix = [[0.0] * (size + 1) for _ in names]
    for factors, measured in rows:
        row = [factors.get(name, 0) / measured for name in names]
        goal = 1 - sum(known.get(name, 0) * factor for name, factor in factors.items()) / measured
        for i in range(size):
            for j in range(size):
                matrix[i][j] += row[i] * row[j]
            matrix[i][size] += row[i] * goal
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for r in range(size):
            if r != i:
                factor = matrix[r][i] / matrix[i][i]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i])]
    return {name: matrix[i][size] / matrix[i][i] for i, name in enumerate(names)}


class Row:
    def __init__(self, kind, source, plan, measured, size):
        self.kind, self.source, self.plan, self.measured, self.size = kind, source, plan, measured, size

    def modelled(self, parameters):
        if self.plan.op in MESSAGES:
            return message_time(parameters, self.plan.op, 2, self.size)
        return time_of(parameters, self.plan)

    def deviation(self, parameters):
        return 100 * (self.modelled(parameters) / self.measured - 1)


def kind_of(plan):
    if plan.op in MESSAGES:
        return "messages"
    if plan.way == "direct":
        return "direct"
    if is_rooted(plan) and plan.way == "lean":
        return "rooted lean"
    return "steps" if plan.steps > 1 else plan.way


def measured_rows():
    rows = []
    for name in ("all-reduce", "every-op"):
        for text in (RESULTS / f"2026-11-30-h200x2-{name}.json").read_text().splitlines():
            record = json.loads(text)
            if record["lib"] != "rondo" or record["mode"] != "graph" or record["op"] in ("barrier", "all_to_allv"):
                continue
            op, size = record["op"], record["bytes"]
            if size < K:
                continue
            plan = Plan(op, 2, flow_of(op, 2, size))
            if op not in MESSAGES:
                said = (record["algo"] == "two-shot", record["proto"].startswith("direct"), record["channels"])
                if said != (plan.shots == 2, plan.way == "direct", plan.blocks):
                    sys.exit(f"model: {name} has {op} of {size} bytes as {said}, the plan here is "
                             f"{plan.shots}-shot {plan.way} of {plan.blocks} blocks")
            rows.append(Row(kind_of(plan), name, plan, record["us"], size))
    sizes = {"K": K, "M": M}
    for text in (RESULTS / "2026-11-30-h200x2-shapes.txt").read_text().splitlines():
        words = text.split()
        if not text.startswith(("all_reduce", "all_gather")):
            continue
        for threads, us in ((256, words[2]), (512, words[3])):
            op, size = words[0], int(words[1])
            plan = Plan(op, 2, flow_of(op, 2, size), threads=threads)
            if plan.way == "lines" and plan.steps == 1 and plan.shots == 1:
                rows.append(Row(kind_of(plan), f"shapes, {threads} threads", plan, float(us), size))
    head = None
    for text in (RESULTS / "2026-11-30-h200x2-direct.txt").read_text().splitlines():
        words = text.split()
        if text.startswith("op "):
            head = [int(word[:-1]) * sizes[word[-1]] for word in words[2:]]
        elif head and len(words) == 2 + len(head) and words[1] == "line":
            for size, us in zip(head, words[2:]):
                op = words[0]
                plan = Plan(op, 2, flow_of(op, 2, size), direct=False)
                if op == "all_reduce":
                    plan = Plan(op, 2, size, shots=2, direct=False)
                if op not in ("broadcast", "reduce") and plan.steps > 1:
                    rows.append(Row("steps", "direct, by lines", plan, float(us), size))
    return rows


def fit(rows):
    """Parameters group by group: each kind of row has the terms of those before, and its own."""
    parameters = {"fan": SKETCHES[0][3] - SKETCHES[0][1]}
    pairs = [(two - one) for size, one, two, _, _ in SKETCHES if one and two and size <= 256 * K]
    parameters["trip"] = sum(pairs) / len(pairs)

    def settle(kind, factors=terms):
        parameters.update(solve([(factors(row.plan), row.measured) for row in rows if row.kind == kind], parameters))

    settle("lean")
    parameters.update(solve([(terms(row.plan), row.measured) for row in rows
                             if row.kind == "lines" and not is_rooted(row.plan)], parameters))
    settle("steps")
    settle("direct")
    rooted = [row for row in rows if is_rooted(row.plan) and row.size >= M]
    parameters.update(solve([(rooted_terms(row.plan)[1], row.measured) for row in rooted], parameters))
    parameters.update(solve([(message_terms(row.plan.op, 2, row.size), row.measured) for row in rows
                             if row.kind == "messages"], parameters))
    return parameters


class Model:
    def __init__(self):
        self.rows = measured_rows()
        self.parameters = fit(self.rows)

    def time(self, op, ranks, size, case="expected"):
        if op in MESSAGES:
            return message_time(self.parameters, op, ranks, size)
        return time_of(self.parameters, Plan(op, ranks, flow_of(op, ranks, size)), case)

    def sketches(self):
        """(size, exchange, measured on 2, measured on 4, modelled on 4): the figure of 2, and what the model says that 4 add."""
        for size, one, two, one_of_four, two_of_four in SKETCHES[1:]:
            for shots, of_two, of_four in ((1, one, one_of_four), (2, two, two_of_four)):
                if of_two:
                    plans = [Plan("all_reduce", ranks, size, shots=shots, direct=False) for ranks in (2, 4)]
                    sums = []
                    for plan in plans:  # the sketch has one kernel for all sizes and no steps
                        factors = {"fan": shots * math.log2(plan.ranks / 2), "1/link": plan.bytes() / crowd("stores", plan.ranks),
                                   "wide": math.log2(plan.blocks) * (1 + shots * math.log2(plan.ranks / 2))}
                        sums.append(dot(self.parameters, factors))
                    # and its figure for 2 has that of its own blocks, which stay as many
                    narrow = self.parameters["wide"] * (math.log2(plans[1].blocks) - math.log2(plans[0].blocks))
                    yield size, ("one-shot", "two-shot")[shots - 1], of_two, of_four, of_two + sums[1] - sums[0] - narrow
