#!/usr/bin/env python3
"""scripts/compare on the host device, where there are no peers but rows that a test makes up. RONDO_PERF as in scripts/compare."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
QUICK = ["--device", "host", "-b", "1K", "-e", "4K", "-n", "2", "-w", "1", "-k", "2", "-G", "2"]
PEER = {"lib": "peer", "version": "1.2", "op": "all_reduce", "count": 256, "type": "float", "redop": "sum", "ranks": 2,
        "device": "host", "mode": "graph", "wrong": 0}


class Compare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rondo-compare-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, *more, rows=()):
        path = self.folder / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return subprocess.run([ROOT / "scripts/compare", *QUICK, "--rows", path, *more], stdout=subprocess.PIPE, text=True)

    def test_shows_rondo_alone_where_there_are_no_peers(self):
        done = self.compare("--ops", "all_reduce,broadcast", "--eager")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(len(re.findall(r"^# (all_reduce|broadcast) of float.*, 2 ranks, (graph|eager)", done.stdout, re.M)), 4)
        self.assertIn("torch: not available", done.stdout)
        self.assertIn("there is no peer", done.stdout)

    def test_names_the_cells_in_which_the_best_peer_is_faster(self):
        rows = [dict(PEER, bytes=1024, us=0.001), dict(PEER, bytes=4096, us=1e9),
                dict(PEER, lib="other", bytes=1024, us=0.002)]
        done = self.compare("--no-torch", rows=rows)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"bytes +rondo +peer 1.2 +other 1.2 +x\n")
        self.assertRegex(done.stdout, r"slower in 1 cells:\n#   all_reduce of float, sum, 2 ranks, graph, 1K: [0-9.]+, peer 1.2 0.00")
        self.assertRegex(done.stdout, r"(?m)^ +4K +[0-9.]+ +1000000000 +- +0.00$")

    def test_writes_all_rows(self):
        done = self.compare("--json", self.folder / "all.jsonl", rows=[dict(PEER, bytes=1024, us=1.0)])
        self.assertEqual(done.returncode, 0, done.stdout)
        records = [json.loads(line) for line in (self.folder / "all.jsonl").read_text().splitlines()]
        self.assertEqual(sorted({record["lib"] for record in records}), ["peer", "rondo"])
        self.assertEqual(sum(record["lib"] == "rondo" for record in records), 4)

    def test_ends_with_1_if_a_result_is_wrong(self):
        done = self.compare("--no-torch", rows=[dict(PEER, bytes=1024, us=1.0, wrong=3)])
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("WRONG: peer all_reduce: 1K, graph: 3 elements are wrong", done.stdout)

    def test_ends_with_1_if_rondo_cannot_be_measured(self):
        done = self.compare("--no-torch", "--ops", "no_such_op")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("WRONG: rondo-perf failed", done.stdout)

    def test_goes_on_without_a_library_that_cannot_be_measured(self):
        done = self.compare("--no-torch", "--lib", self.folder / "libnothing.so")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ +1K +[0-9.]+ +-$")
        self.assertIn("libnothing.so", done.stdout)

    def test_torch_that_is_not_there_is_a_row_that_says_why(self):
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="")  # with PyTorch and GPUs too
        done = subprocess.run([sys.executable, ROOT / "bench/peers/torch_symmetric.py"], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        self.assertEqual(done.returncode, 0)
        records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        self.assertEqual([record["lib"] for record in records], ["torch-one-shot", "torch-two-shot"])
        self.assertTrue(all(record["unavailable"] for record in records))
        shown = self.compare("--no-torch", rows=records)
        self.assertIn("torch-one-shot: not available:", shown.stdout)


if __name__ == "__main__":
    unittest.main()
