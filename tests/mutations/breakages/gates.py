"""Guards between workers that delete and the driver that looks: gate and watch, and the right that both hold."""

from __future__ import annotations

from tests.mutations.breakages.breakage import Breakage

GATES = (
    Breakage(
        "the loss of the lease is ignored",
        "dredge/runs/gate.py",
        "check_lease(self._state, LEASE, self._config.lease, store_now)",
        "pass",
        ("test_a_lease_that_is_lost_while_deleting_stops_before_the_next_request",),
    ),
    Breakage(
        "a driver that says nothing is believed",
        "dredge/runs/gate.py",
        "if seen is None or max(abs(store_now - seen), self._known_for(seen, asked)) >= self._silence:",
        "if seen is None:",
        ("test_when_nobody_looks_at_branches_any_more_workers_stop_by_themselves",),
    ),
    Breakage(
        "a look from the store's future is believed",
        "dredge/runs/gate.py",
        "abs(store_now - seen)",
        "store_now - seen",
        ("test_a_look_of_a_driver_that_died_before_the_stores_clock_was_set_back_opens_nothing",),
    ),
    Breakage(
        "a look counts for longer when the store's clock is set back",
        "dredge/runs/gate.py",
        "timedelta(seconds=now - self._known[1])",
        "timedelta()",
        ("test_a_driver_that_died_is_silent_for_no_longer_when_the_stores_clock_is_set_back",),
    ),
    Breakage(
        "an overtaken try goes on",
        "dredge/runs/gate.py",
        "self.attempt.check()",
        "pass",
        ("test_an_orphaned_sweep_makes_no_request_once_its_retry_has_begun",),
    ),
    Breakage(
        "a sweep in a Spark application that lives on goes on",
        "dredge/runs/gate.py",
        "        self.attempt.check()\n        # This machine",
        "        # This machine",
        ("test_a_try_that_was_given_up_deletes_no_more_though_its_application_lives",),
    ),
    Breakage(
        "a watch that cannot look leaves the gate open",
        "dredge/runs/watch.py",
        "            self.error = error\n        is_open",
        "            pass\n        is_open",
        ("test_a_look_that_fails_closes_the_gate_also_without_a_word",),
    ),
    Breakage(
        "a watch that found something leaves the gate open",
        "dredge/runs/watch.py",
        "is_open = self.found is None and self.error is None",
        "is_open = self.error is None",
        ("test_a_reason_to_stop_closes_the_gate",),
    ),
    Breakage(
        "a gate is not watched",
        "dredge/runs/gate.py",
        "if seen is None or max(abs(store_now - seen), self._known_for(seen, asked)) >= self._silence:",
        "if False:",
        ("test_no_group_is_sent_once_the_gate_is_closed",),
    ),
    Breakage(
        "a gate that the driver closed is open",
        "dredge/runs/gate.py",
        'seen["open"] and not exists(self._folder.writer, _shut(self._config.watch))',
        "True",
        ("test_no_group_is_sent_once_the_gate_is_closed",),
    ),
    Breakage(
        "a gate that nobody has opened yet is open",
        "dredge/runs/gate.py",
        "        except NotFoundError:\n            return None",
        '        except NotFoundError:\n            return store_clock(self._state, "")',
        ("test_gate_is_closed_before_the_driver_has_looked",),
    ),
    Breakage(
        "a worker that slept while it looked believes what it saw before",
        "dredge/runs/gate.py",
        "store_now += timedelta(seconds=running_seconds() - asked)",
        "pass",
        ("test_a_gate_is_closed_to_a_worker_that_slept_while_it_looked",),
    ),
    Breakage(
        "a driver that slept while it looked is believed",
        "dredge/runs/watch.py",
        '            at = store_clock(self._state, "")  # before the look: what is written late was still seen then\n'
        "            self.found = self._look()\n",
        '            self.found = self._look()\n            at = store_clock(self._state, "")\n',
        ("test_a_look_is_as_old_as_its_beginning",),
    ),
    Breakage(
        "a worker asks for the time before it reads what the driver saw",
        "dredge/runs/gate.py",
        "        seen = self._seen_at()\n        asked = running_seconds()\n"
        '        store_now = store_clock(self._state, "", self._probe)\n',
        '        asked, store_now = running_seconds(), store_clock(self._state, "", self._probe)\n'
        "        seen = self._seen_at()\n",
        ("test_a_worker_asks_for_the_time_after_it_has_read_what_the_driver_saw",),
    ),
    Breakage(
        "an earlier look that arrives last opens the gate again",
        "dredge/runs/gate.py",
        'if seen["open"] and not exists(self._folder.writer, _shut(self._config.watch)):',
        'if seen["open"]:',
        ("test_a_look_that_arrives_after_the_one_that_closed_the_gate_opens_nothing",),
    ),
    Breakage(
        "an earlier try shortens the right of a run that waits",
        "dredge/runs/lease.py",
        "least = held.expires_at if held.holder and not shorten else None",
        "least = None",
        ("test_a_renewal_shortens_no_right_that_lives_longer_unless_it_is_to",),
    ),
    Breakage(
        "a gate that could not look lets through",
        "dredge/runs/gate.py",
        '                log.warning("no further request is sent: %s", error)\n                self.has_shut = True',
        '                log.warning("no further request is sent: %s", error)',
        ("test_a_lease_that_is_lost_while_deleting_stops_before_the_next_request",),
    ),
    Breakage(
        "a gate that shut opens again",
        "dredge/runs/gate.py",
        "self.has_shut = self.has_shut or not self.is_open()",
        "self.has_shut = not self.is_open()",
        ("test_a_gate_that_held_a_request_back_lets_no_later_one_through",),
    ),
)
