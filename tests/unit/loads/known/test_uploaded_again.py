"""The same bytes uploaded twice under one key are one source; other bytes come only if that is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.core.errors import Unreachable
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import planned_key, produced_key, run_key
from sluice.loads.known.index import ETAGS
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.planning import plan as plans
from tests.support.loads import Loads
from tests.support.raising import raising

ROWS = 3
A = "nyc_taxi/a.csv"
PLACE = "source", A


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    """One object was loaded."""
    made = Loads(tmp_path)
    made.upload("a", ROWS)
    made.load("r1")
    return made


def current(loads: Loads) -> tuple[str, str]:
    """Source id and version id of the object's newest version."""
    found = loads.source.head(A)
    return found.source_id, found.version_id or ""


def planned(loads: Loads, run: str) -> list[str]:
    return [source["source_id"] for source in plans.plan_of(loads.ledger, run)["sources"]]


def forget_how_far_it_was_sent(loads: Loads, source_id: str) -> None:
    """As of a load that died in the middle: planned, and rows of it may be on the topic."""
    del loads.s3.objects["w", f"ledger/nyc_taxi/{produced_key(source_id)}"]


def test_the_same_bytes_again_are_not_loaded_again_and_are_named(
    loads: Loads, capsys: pytest.CaptureFixture[str]
) -> None:
    first = current(loads)
    loads.upload("a", ROWS)
    again = current(loads)
    assert again != first
    produced = loads.produce("r2", objects=[A])
    log = capsys.readouterr().out.splitlines()
    assert any("uploaded again" in line and again[1] in line and first[1] in line for line in log)
    proof = loads.validate("r2")
    assert loads.end == ROWS, "no row twice"
    assert (produced["uploaded_again"], proof["uploaded_again"]) == (f"s3://source/{A}",) * 2
    assert (produced["sources"], produced["verified_before"], proof["verified_before"]) == (0, 1, 1)
    named = {
        "bucket": "source", "key": A, "source_id": again[0], "version_id": again[1],
        "same_as": first[0], "loaded_version_id": first[1], "is_reverted": False,
    }  # fmt: skip
    assert plans.plan_of(loads.ledger, "r2")["uploaded_again"] == [named]
    assert loads.ledger.require(run_key("r2", "proof"), "validate")["uploaded_again"] == [named]


def test_it_is_compared_once(loads: Loads) -> None:
    """The next load finds the version among the verified ones, and does not name it again."""
    loads.upload("a", ROWS)
    loads.load("r2")
    before = loads.s3.requests.copy()
    proof = loads.load("r3")
    assert (proof["verified_before"], proof["uploaded_again"], loads.end) == (1, "", ROWS)
    # The bucket's listing, the verified one's; no look-up of the key.
    assert (loads.s3.requests - before)["LIST"] == 2


def test_a_bucket_that_was_restored_by_copy_is_not_loaded_again(loads: Loads) -> None:
    """The same ETags and sizes, new versions, and none of the old ones."""
    loads.s3.copies[PLACE] += 1
    proof = loads.load("r2")
    assert (proof["verified_before"], loads.end) == (1, ROWS)


def test_other_content_under_a_loaded_key_is_refused(loads: Loads) -> None:
    first = current(loads)
    loads.upload("a", ROWS + 1)
    words = ("SLU-313", f"s3://source/{A}", first[1], current(loads)[1], "run 'r1' has loaded", "Fix: ",
             "nyc_taxi_load", "withhold", "nyc_taxi_change", "replace", "load_changed_objects")  # fmt: skip
    with raising(AirflowFailException, *words):
        loads.produce("r2", objects=[A])
    assert loads.end == ROWS
    with pytest.raises(AirflowFailException, match="SLU-313"):
        loads.produce("r3", verify_again=True)


def test_other_content_comes_if_that_is_asked_for(loads: Loads) -> None:
    loads.upload("a", ROWS + 1)
    proof = loads.load("r2", load_changed_objects=True)
    assert (proof["published"], proof["uploaded_again"], loads.end) == (ROWS + 1, "", 2 * ROWS + 1)
    assert loads.load("r3")["verified_before"] == 1, "asked for once"
    # The first content again, and then the second.
    for rows, run in ((ROWS, "r4"), (ROWS + 1, "r5")):
        loads.upload("a", rows)
        assert loads.load(run)["uploaded_again"]
    assert loads.end == 2 * ROWS + 1


def test_a_withheld_corrected_file_that_is_uploaded_again_is_one(loads: Loads) -> None:
    loads.upload("a", ROWS + 1)
    first = loads.load("r2", objects=[A], withhold=True)
    loads.upload("a", ROWS + 1)
    again = loads.load("r3", objects=[A], withhold=True)
    assert (first["withheld"], again["withheld"], again["verified_before"]) == (ROWS + 1, 0, 1)


def test_of_a_reverted_load_the_same_bytes_are_left_out_unless_asked_for(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = current(loads)[0]
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset({first}))
    loads.upload("a", ROWS)
    proof = loads.load("r2")
    assert (proof["reverted"], proof["uploaded_again"], loads.end) == (1, f"s3://source/{A}", ROWS)
    # It is looked up again: a redo may have brought the rows back.
    assert loads.load("r3")["reverted"] == 1
    assert loads.load("r4", load_changed_objects=True)["published"] == ROWS
    assert (planned(loads, "r4"), loads.end) == ([current(loads)[0]], 2 * ROWS)


def test_a_version_that_counted_as_verified_does_not_once_its_rows_are_taken_out(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = current(loads)[0]
    loads.upload("a", ROWS)
    assert loads.load("r2")["verified_before"] == 1
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset({first}))
    proof = loads.load("r3")
    assert (proof["verified_before"], proof["reverted"]) == (0, 1)


def test_what_was_replaced_comes_back_as_a_correction_only(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first content again, after the second took its place: it is other content than what is loaded."""
    first = current(loads)[0]
    loads.upload("a", ROWS + 1)
    loads.load("r2", objects=[A], withhold=True)
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset({first}))
    loads.upload("a", ROWS)
    with raising(AirflowFailException, "SLU-313", "run 'r2' has loaded"):
        loads.produce("r3", objects=[A])
    assert loads.load("r4", objects=[A], withhold=True)["withheld"] == ROWS


def test_a_content_that_may_be_sent_in_part_is_resumed_by_the_same_bytes(loads: Loads) -> None:
    """From the newest version: the first one may be gone."""
    loads.upload("b", ROWS)
    loads.produce("r2", objects=["nyc_taxi/b.csv"])
    first = loads.source.head("nyc_taxi/b.csv")
    forget_how_far_it_was_sent(loads, first.source_id)
    loads.s3.copies["source", "nyc_taxi/b.csv"] += 1
    loads.produce("r3", objects=["nyc_taxi/b.csv"])
    (source,) = plans.plan_of(loads.ledger, "r3")["sources"]
    newest = loads.source.head("nyc_taxi/b.csv").version_id
    assert (source["source_id"], source["version_id"]) == (first.source_id, newest)
    assert source["run_id"] == "r2", "with the start offsets of its first plan"


def test_other_content_after_a_load_that_may_have_sent_a_part_is_refused(loads: Loads) -> None:
    loads.upload("b", ROWS)
    loads.produce("r2", objects=["nyc_taxi/b.csv"])
    forget_how_far_it_was_sent(loads, loads.source.head("nyc_taxi/b.csv").source_id)
    loads.upload("b", ROWS + 1)
    for run, params in (("r3", {}), ("r4", {"load_changed_objects": True})):
        with raising(AirflowFailException, "SLU-314", "run 'r2' planned its version", "withhold"):
            loads.produce(run, objects=["nyc_taxi/b.csv"], **params)
    assert loads.produce("r5", objects=["nyc_taxi/b.csv"], withhold=True)["sources"] == 1


def test_of_two_runs_that_plan_two_versions_at_once_one_is_refused(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load and a backfill: both have looked the key up before one of them adds its version."""
    loads.upload("b", ROWS)
    put, is_first = Ledger.put, [True]

    def overtaken(ledger: Ledger, key: str, document: Any) -> Any:
        if key.startswith("objects/") and is_first:
            is_first.clear()
            loads.upload("b", ROWS + 1)
            loads.produce("other", objects=["nyc_taxi/b.csv"])
        return put(ledger, key, document)

    monkeypatch.setattr(Ledger, "put", overtaken)
    end = loads.end
    with raising(AirflowFailException, "SLU-313", "run 'other' has loaded"):
        loads.produce("r2", objects=["nyc_taxi/b.csv"])
    assert loads.end == end + ROWS + 1


def test_runs_that_always_overtake_each_other_are_tried_again_by_airflow(
    loads: Loads, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads.upload("b", ROWS)
    put = Ledger.put

    def overtaken(ledger: Ledger, key: str, document: Any) -> Any:
        found = put(ledger, key, document)
        return {"contents": []} if key.startswith("objects/") else found

    monkeypatch.setattr(Ledger, "put", overtaken)
    # Each put is another run's, and the index keeps this one's: planned at the second attempt.
    assert loads.produce("r2", objects=["nyc_taxi/b.csv"])["sources"] == 1
    monkeypatch.setattr(Ledger, "put", lambda ledger, key, document: {"contents": []})
    loads.upload("c", ROWS)
    with raising(Unreachable, "other runs of nyc_taxi planned the same objects"):
        loads.produce("r3", objects=["nyc_taxi/c.csv"])


def test_without_a_table_nothing_is_planned(loads: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(loads.lake), "position", lambda *_: None)
    loads.upload("b", ROWS)
    with raising(AirflowFailException, "SLU-222", "no published snapshot", "ensure_consumer"):
        loads.produce("r2", objects=["nyc_taxi/b.csv"])


class TestComparison:
    """Objects of the same size, with another ETag: as after an upload in parts of another size."""

    @pytest.fixture
    def parts(self, loads: Loads) -> Loads:
        loads.upload("a", ROWS)
        loads.s3.etags[current(loads)[1]] = "0123456789abcdef0123456789abcdef-2"
        return loads

    def checksums(self, loads: Loads, first: str, newest: str, kind: str = "FULL_OBJECT") -> None:
        versions = [found["VersionId"] for found, _ in loads.s3._versions(*PLACE)]
        for version, checksum in zip(versions, (newest, first), strict=True):
            loads.s3.checksums[version] = {"ChecksumType": kind, "ChecksumCRC64NVME": checksum}

    def test_equal_bytes_are_the_same_and_are_read_once(self, parts: Loads) -> None:
        proof = parts.load("r2")
        assert (proof["uploaded_again"], parts.end) == (f"s3://source/{A}", ROWS)
        parts.s3.got.clear()
        parts.load("r3", verify_again=True)
        assert parts.s3.got.count(A) == 1, "to count its rows"

    def test_other_bytes_are_not(self, parts: Loads) -> None:
        parts.s3.objects[PLACE] = parts.s3.objects[PLACE].replace(b"a 0", b"b 0")
        with pytest.raises(AirflowFailException, match="SLU-313"):
            parts.produce("r2")

    def test_what_cannot_be_read_any_more_is_not(self, parts: Loads) -> None:
        version = current(parts)[1]
        del parts.s3.earlier[PLACE]
        parts.s3.copies[PLACE] += 1
        assert current(parts)[1] == version
        with pytest.raises(AirflowFailException, match="SLU-313"):
            parts.produce("r2")

    @pytest.mark.parametrize("newest", ["one", "other"])
    def test_checksums_of_whole_objects_tell_without_reading(self, parts: Loads, newest: str) -> None:
        self.checksums(parts, "one", newest)
        parts.s3.got.clear()
        if newest == "one":
            assert parts.produce("r2")["uploaded_again"]
        else:
            with pytest.raises(AirflowFailException, match="SLU-313"):
                parts.produce("r2")
        assert A not in parts.s3.got

    def test_the_newest_version_is_asked_once_whatever_it_is_compared_with(self, parts: Loads) -> None:
        """There are four contents of the same size; a HEAD of each, and one of the new one."""
        for first in "xyz":
            parts.upload("a", ROWS)
            parts.s3.objects[PLACE] = parts.s3.objects[PLACE].replace(b"a 0", f"{first} 0".encode())
            parts.load(first, load_changed_objects=True, objects=[A])
        parts.upload("a", ROWS)
        parts.s3.objects[PLACE] = parts.s3.objects[PLACE].replace(b"a 0", b"w 0")
        for found, body in parts.s3._versions(*PLACE):
            whole = {"ChecksumType": "FULL_OBJECT", "ChecksumCRC64NVME": body.decode()}
            parts.s3.checksums[found["VersionId"]] = whole
        parts.s3.requests.clear()
        with pytest.raises(AirflowFailException, match="SLU-313"):
            parts.produce("r2")
        assert parts.s3.requests["HEAD"] == 1 + 4

    def test_what_was_found_equal_is_not_read_again_by_a_retry(self, parts: Loads) -> None:
        """Whatever else the attempt ended over: here another object."""
        parts.upload("b", ROWS)
        parts.load("b", objects=["nyc_taxi/b.csv"])
        parts.upload("b", ROWS + 1)
        read = []
        for run in ("r2", "r3"):
            parts.s3.got.clear()
            with raising(AirflowFailException, "SLU-313", "b.csv"):
                parts.produce(run, objects=[A, "nyc_taxi/b.csv"])
            read.append(parts.s3.got.count(A))
        assert read == [2, 0]

    def test_a_content_that_comes_with_another_etag_each_time_costs_as_much_each_time(
        self, loads: Loads
    ) -> None:
        """As of encrypted objects: one source, whatever it was called."""
        asked, sizes = [], []
        for number in range(2 * ETAGS):
            loads.upload("a", ROWS)
            loads.s3.etags[current(loads)[1]] = f"{number:032x}"
            asked.append(loads.requests(f"again {number}", objects=[A]))
            documents = [body for (_, key), body in loads.s3.objects.items() if "/objects/" in key]
            sizes.append(max(map(len, documents)))
        assert loads.end == ROWS
        assert len({tuple(sorted(found.items())) for found in asked[1:]}) == 1
        assert sizes[-1] == sizes[ETAGS]

    def test_checksums_of_parts_tell_nothing(self, parts: Loads) -> None:
        self.checksums(parts, "one", "other", "COMPOSITE")
        assert parts.produce("r2")["uploaded_again"]


class TestLostIndex:
    """The ledger was restored to an earlier state: it has fewer documents than the table has sources."""

    def lose(self, loads: Loads, *words: str) -> None:
        keys = [place for place in loads.s3.objects if place[0] == "w" and any(w in place[1] for w in words)]
        assert keys
        for place in keys:
            del loads.s3.objects[place]

    @pytest.mark.parametrize("params", [{}, {"objects": [A]}])
    def test_the_same_bytes_are_not_loaded_again(self, loads: Loads, params: dict[str, Any]) -> None:
        self.lose(loads, "/objects/")
        loads.upload("a", ROWS)
        proof = loads.load("r2", **params)
        assert (proof["uploaded_again"], loads.end) == (f"s3://source/{A}", ROWS)
        # The document is written from what was found, and is enough without the bucket's older version.
        del loads.s3.earlier[PLACE]
        loads.upload("a", ROWS + 1)
        del loads.s3.earlier[PLACE]
        with raising(AirflowFailException, "SLU-313", "run 'r1' has loaded"):
            loads.produce("r3", **params)

    def test_other_content_is_refused(self, loads: Loads) -> None:
        self.lose(loads, "/objects/")
        loads.upload("a", ROWS + 1)
        with raising(AirflowFailException, "SLU-313", "run 'r1' has loaded"):
            loads.produce("r2")
        assert loads.load("r3", objects=[A], withhold=True)["withheld"] == ROWS + 1

    @pytest.mark.parametrize("rows", [ROWS, ROWS + 1])
    def test_rows_that_no_plan_knows_refuse_it(self, loads: Loads, rows: int) -> None:
        first = current(loads)
        self.lose(loads, "/objects/", "/sources/", "/verified/")
        loads.upload("a", rows)
        with raising(AirflowFailException, "SLU-313", *first, "nothing was sent", "Fix: restore", "remove"):
            loads.produce("r2")
        assert loads.end == ROWS

    def test_an_index_that_is_left_alone_refuses_it_too(self, loads: Loads) -> None:
        self.lose(loads, "/sources/", "/verified/")
        loads.upload("a", ROWS)
        with raising(AirflowFailException, "SLU-313", "no plan of it"):
            loads.produce("r2")

    def test_what_was_sent_to_another_topic_is_loaded_into_a_new_table(self, loads: Loads) -> None:
        """The way on after a topic was recreated: the files are uploaded again."""
        self.lose(loads, "/objects/")
        key = f"ledger/nyc_taxi/{planned_key(current(loads)[0])}"
        document = json.loads(loads.s3.objects["w", key])
        loads.s3.objects["w", key] = json.dumps({**document, "topic_id": "another"}).encode()
        loads.upload("a", ROWS)
        assert loads.load("r2")["published"] == ROWS

    def test_versions_of_which_none_was_planned_are_loaded(self, loads: Loads) -> None:
        loads.upload("b", ROWS)
        loads.upload("b", ROWS + 1)
        assert loads.load("r2")["published"] == ROWS + 1
