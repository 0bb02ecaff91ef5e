"""Rules of a proxy that make a REST catalog break one promise each, as servers do that were met or could
be."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

from tests.support.catalog_proxy import Answer, Ask, Asked, Json, Rule, refusal

# Until another client has asked too.
PAUSE_SECONDS = 0.05
MAIN = "main"
Required = list[Json]
Updates = list[Json]


def _sets(updates: Updates) -> set[str]:
    """The refs that a commit changes."""
    return {one["ref-name"] for one in updates if one["action"].endswith("-snapshot-ref")}


def _is_set(update: Json) -> bool:
    return bool(update["action"] == "set-snapshot-ref")


def _refs(asked: Asked, ask: Ask) -> dict[str, int]:
    metadata = ask(asked.load()).json["metadata"]
    return {name: ref["snapshot-id"] for name, ref in metadata.get("refs", {}).items()}


def changed(change: Callable[[Required, Updates], tuple[Required, Updates]]) -> Rule:
    """A catalog that makes another commit than it was asked for."""

    def rule(asked: Asked, ask: Ask) -> Answer:
        if not asked.is_commit:
            return ask(asked)
        body = asked.json
        required, updates = change(body["requirements"], body["updates"])
        return ask(asked.with_json(body | {"requirements": required, "updates": updates}))

    return rule


def splits_a_commit(asked: Asked, ask: Ask) -> Answer:
    """One for each ref, of which the second is refused by what the first has done."""
    body = asked.json
    refs = [one for one in body.get("updates", []) if _is_set(one)]
    if len(refs) < 2 or "requirements" not in body:
        return ask(asked)
    first = [one for one in body["updates"] if one not in refs[1:]]
    if (answer := ask(asked.with_json(body | {"updates": first}))).status != 200:
        return answer
    return ask(asked.with_json(body | {"updates": refs[1:]}))


def moves_main_instead(required: Required, updates: Updates) -> tuple[Required, Updates]:
    """As Nessie 0.99: to a branch of its own of a table is no such thing there."""
    if MAIN in _sets(updates):
        return required, updates
    return required, [one | {"ref-name": MAIN} if _is_set(one) else one for one in updates]


def says_that_it_committed(asked: Asked, ask: Ask) -> Answer:
    """A move of refs that brings no snapshot."""
    updates = asked.json.get("updates", []) if asked.is_commit else []
    if updates and all(map(_is_set, updates)):
        found = ask(asked.load())
        return Answer(200, json.dumps(found.json | {"config": {}}).encode(), found.headers)
    return ask(asked)


def refuses_what_it_committed(asked: Asked, ask: Ask) -> Answer:
    """A move of refs, as a server does that asks its database again and sees its own commit."""
    answer = ask(asked)
    updates = asked.json.get("updates", []) if asked.is_commit else []
    if updates and all(map(_is_set, updates)) and answer.status == 200:
        return refusal(409, "CommitFailedException", "the table has changed")
    return answer


def requires_nothing(_: Required, updates: Updates) -> tuple[Required, Updates]:
    return [], updates


def requires_only_what_it_sets(required: Required, updates: Updates) -> tuple[Required, Updates]:
    sets = _sets(updates)
    return [one for one in required if one.get("ref") in {None, *sets}], updates


def removes_no_ref(required: Required, updates: Updates) -> tuple[Required, Updates]:
    return required, [one for one in updates if one["action"] != "remove-snapshot-ref"]


def makes_a_removed_branch_again(asked: Asked, ask: Ask) -> Answer:
    if not asked.is_commit:
        return ask(asked)
    body, there = asked.json, _refs(asked, ask)
    required = [one for one in body["requirements"] if one.get("ref", MAIN) in {MAIN, *there}]
    return ask(asked.with_json(body | {"requirements": required}))


def expires_nothing(required: Required, updates: Updates) -> tuple[Required, Updates]:
    return required, [one for one in updates if one["action"] != "remove-snapshots"]


def numbers_by_itself(asked: Asked, ask: Ask) -> Answer:
    """A snapshot with an old sequence number gets the next one."""
    if not asked.is_commit:
        return ask(asked)
    body = asked.json
    number = ask(asked.load()).json["metadata"]["last-sequence-number"] + 1
    updates = [
        one | {"snapshot": one["snapshot"] | {"sequence-number": number}}
        if one["action"] == "add-snapshot"
        else one
        for one in body["updates"]
    ]
    return ask(asked.with_json(body | {"updates": updates}))


def takes_the_last_number_again(asked: Asked, ask: Ask) -> Answer:
    """Refuses older sequence numbers than the last, not the last one."""
    if not asked.is_commit:
        return ask(asked)
    body = asked.json
    last = ask(asked.load()).json["metadata"]["last-sequence-number"]
    updates = [
        one | {"snapshot": one["snapshot"] | {"sequence-number": last + 1}}
        if one["action"] == "add-snapshot" and one["snapshot"]["sequence-number"] == last
        else one
        for one in body["updates"]
    ]
    return ask(asked.with_json(body | {"updates": updates}))


def takes_none_for_left_out(required: Required, updates: Updates) -> tuple[Required, Updates]:
    """As a server that reads null as a field that is not there."""
    is_none = [one for one in required if "ref" in one and one.get("snapshot-id") is None]
    return [one for one in required if one not in is_none], updates


def ignores(kind: str) -> Callable[[Required, Updates], tuple[Required, Updates]]:
    def change(required: Required, updates: Updates) -> tuple[Required, Updates]:
        return [one for one in required if one["type"] != kind], updates

    return change


def loses_properties_beside_refs(required: Required, updates: Updates) -> tuple[Required, Updates]:
    if not _sets(updates):
        return required, updates
    return required, [one for one in updates if one["action"] != "set-properties"]


def checks_early(late: Callable[[Required, Updates, dict[str, int]], Required | None]) -> Rule:
    """A catalog that looks at what is required, and later makes the commit by a part of it: ``late``, by the
    refs as they are then; None if it is refused then. So does one that tries again without a look when
    another commit came between."""
    guard = threading.Lock()

    def rule(asked: Asked, ask: Ask) -> Answer:
        if not asked.is_commit:
            return ask(asked)
        body = asked.json
        required, updates = body["requirements"], body["updates"]
        there = _refs(asked, ask)
        if any("ref" in one and there.get(one["ref"]) != one["snapshot-id"] for one in required):
            return refusal(409, "CommitFailedException", "a ref has moved")
        time.sleep(PAUSE_SECONDS)
        with guard:
            left = late(required, updates, _refs(asked, ask))
            if left is None:
                return refusal(409, "CommitFailedException", "a ref is gone")
            return ask(asked.with_json(body | {"requirements": left}))

    return rule


def forgets_refs_that_it_does_not_set(required: Required, updates: Updates, _: dict[str, int]) -> Required:
    return requires_only_what_it_sets(required, updates)[0]


def looks_only_whether_they_are_there(
    required: Required, updates: Updates, there: dict[str, int]
) -> Required | None:
    if any(one["action"] == "remove-snapshot-ref" for one in updates):
        return required
    others = [one for one in required if one.get("ref", MAIN) not in {MAIN, *_sets(updates)}]
    if any(one["ref"] not in there for one in others if one["snapshot-id"] is not None):
        return None
    return [one for one in required if one not in others]


def last_move_of_main_wins(required: Required, updates: Updates, _: dict[str, int]) -> Required:
    moves = any(_is_set(one) and one["ref-name"] == MAIN for one in updates)
    return [one for one in required if not (moves and one.get("ref") == MAIN)]


# The promise that each breaks, which follow the order of the promises.
BROKEN: dict[str, Rule] = {
    "several-refs-at-once": splits_a_commit,
    "append-to-branch": changed(moves_main_instead),
    "publish": says_that_it_committed,
    "stale-publish": changed(requires_nothing),
    "untouched-ref": changed(requires_only_what_it_sets),
    "second-writer": changed(removes_no_ref),
    "removed-branch": makes_a_removed_branch_again,
    "publish-with-expiry": changed(expires_nothing),
    "sequence-number": numbers_by_itself,
    "last-sequence-number": takes_the_last_number_again,
    "missing-ref": changed(takes_none_for_left_out),
    "current-schema": changed(ignores("assert-current-schema-id")),
    "last-column": changed(ignores("assert-last-assigned-field-id")),
    "properties-with-refs": changed(loses_properties_beside_refs),
    "branch-removed-meanwhile": checks_early(forgets_refs_that_it_does_not_set),
    "branch-moved-meanwhile": checks_early(looks_only_whether_they_are_there),
    "commit-meanwhile": checks_early(last_move_of_main_wins),
}
