"""When a worker counts as broken, and when it is looked at again."""

from antiphon.workers.breaker import Breaker, BreakerOptions
from antiphon.workers.probe import Health, ProbeOptions


def test_failures_in_a_row_open_it_longer_each_time() -> None:
    breaker = Breaker(BreakerOptions(failures=3, seconds=5, longest_seconds=12))
    for _ in range(2):
        breaker.failed(0)
    assert breaker.allows(0)
    breaker.failed(0)
    assert not breaker.allows(4.9) and breaker.allows(5)
    breaker.failed(6)
    assert not breaker.allows(15.9) and breaker.allows(16)
    breaker.failed(16)
    assert breaker.open_until == 28
    breaker.succeeded()
    breaker.failed(28)
    assert breaker.allows(28)


def test_a_success_in_between_starts_the_count_anew() -> None:
    breaker = Breaker(BreakerOptions(failures=2))
    for _ in range(10):
        breaker.failed(0)
        breaker.succeeded()
    assert breaker.allows(0)


def test_jobs_that_fail_while_it_is_open_do_not_lengthen_the_pause() -> None:
    breaker = Breaker(BreakerOptions(failures=1, seconds=5))
    for _ in range(50):
        breaker.failed(1)
    assert breaker.open_until == 6


def test_probes_come_closer_after_a_failure_and_one_answer_is_enough() -> None:
    health = Health(ProbeOptions(seconds=5, failures=2, first_retry_seconds=0.5))
    assert health.is_well and health.next_in == 5
    waits = []
    for _ in range(6):
        health.failed()
        waits.append((health.is_well, health.next_in))
    assert waits == [(True, 0.5), (False, 1), (False, 2), (False, 4), (False, 5), (False, 5)]
    health.answered()
    assert health.is_well and health.next_in == 5
