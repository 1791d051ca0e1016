#!/usr/bin/env python3
"""Rank 1 does what --mode says, so that a test sees whether the clients' launcher notices: well, wrong, error, hang, death."""
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from ranks import Failed, main


def misbehave(rank):
    mode = rank.options.mode if rank.number == 1 else "well"
    if mode == "wrong":
        raise Failed("a result is wrong")
    if mode == "error":
        raise RuntimeError("an op failed")
    if mode == "hang":
        time.sleep(1000)
    if mode == "death":
        os._exit(0)


def body(rank):
    rank.step("first", lambda: None)
    rank.step("second", lambda: misbehave(rank), 1)
    rank.step("third", lambda: None)


main(body, __doc__, lambda parser: parser.add_argument("--mode", required=True))
