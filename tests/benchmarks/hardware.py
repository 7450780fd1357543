"""The limits that rows are compared with: memory bandwidth, additions, and what two processes do together."""

import time
from collections.abc import Callable

import numba
import numpy as np

from tests.benchmarks.measure import Limits, start_child

Rates = tuple[float, float]
"""What is done in a second of the clock, and in a second of the processor, which other programs hardly slow."""

COPIED, SECONDS, ROUNDS = 1 << 28, 1.0, 3  # bytes of an array, many times any cache
STARTING = 3.0  # for processes to start and compile
NUMBERS, REPEATS = 2048, 20_000  # 16 KiB stay in the nearest cache


def limits(short: bool = False) -> Limits:
    """The best of some rounds, since a limit is what the machine does undisturbed; one process and two in turn."""
    span = SECONDS / 10 if short else SECONDS
    rounds = range(1 if short else ROUNDS)
    size = COPIED // 16 if short else COPIED
    copied = [[together(copy_rate, (size, span), n)[1] for n in (1, 2)] for _ in rounds]
    added = [[together(addition_rate, (span,), n) for n in (1, 2)] for _ in rounds]
    one, two = (max(column) for column in zip(*copied, strict=True))
    alone, both = (max(by_clock for by_clock, _ in column) for column in zip(*added, strict=True))
    return Limits((one, two), max(by_processor for (_, by_processor), _ in added), both / alone)


def together(rate: Callable[..., Rates], arguments: tuple[float, ...], processes: int) -> Rates:
    """The sums of the rates of so many processes that begin at one time."""
    begin = time.time() + STARTING
    waiting = [start_child(rate, *arguments, begin) for _ in range(processes)]
    by_clock, by_processor = zip(*(wait(60.0) for wait in waiting), strict=True)
    return sum(by_clock), sum(by_processor)


def copy_rate(size: int, span: float, begin: float) -> Rates:
    """Bytes a second, each read one and each written one counted, as STREAM does."""
    given, taken = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    return rates(lambda: np.copyto(taken, given), 2 * size, span, begin)


def addition_rate(span: float, begin: float) -> Rates:
    """Additions a second of 64-bit integers in the cache."""
    numbers = np.arange(NUMBERS)
    return rates(lambda: add(numbers, REPEATS), 2 * NUMBERS * REPEATS, span, begin)


@numba.njit
def add(numbers, repeats):  # type: ignore[no-untyped-def]
    total = 0
    for repeat in range(repeats):
        for number in numbers:
            total += number + repeat
    return total


def rates(work: Callable[[], object], amount: float, span: float, begin: float) -> Rates:
    work()  # memory is taken before the clock starts
    time.sleep(max(0.0, begin - time.time()))
    done, clock, processor = 0.0, time.perf_counter(), time.process_time()
    while time.perf_counter() - clock < span:
        work()
        done += amount
    return done / (time.perf_counter() - clock), done / (time.process_time() - processor)
