"""A version of an object with CSV lines, and which versions a load takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Self

from sluice.core.csv.form import Form
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.messages import MAX_PROBLEMS
from sluice.loads.known.contents import Known
from sluice.loads.known.index import Found, ObjectContents
from sluice.loads.known.verified import NewSources, VerifiedSources, without_verified
from sluice.loads.sources.base import Dataset, Source

if TYPE_CHECKING:
    from sluice.clients.s3.objects import Bucket, ObjectVersion
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems


@dataclass(frozen=True)
class ObjectSource(Source):
    """An object. Among versions with the same content the first is the source, and the newest is read: an
    earlier one may be gone."""

    KIND = None
    OF_PLAN = ("version_id", "etag")

    @property
    def key(self) -> str:
        return str(self.document["key"])

    @property
    def version(self) -> ObjectVersion:
        from sluice.clients.s3.objects import ObjectVersion

        return ObjectVersion.of(self.document)

    @property
    def form(self) -> Form:
        """How its rows were cut when it was planned."""
        return Form.from_document((self.document.get("rules") or {}).get("form"))

    @property
    def name(self) -> str:
        return f"s3://{self.document['bucket']}/{self.key}"

    @property
    def identity(self) -> Document:
        return {"object": self.name, "version_id": self.document["version_id"]}

    def send_again(self) -> str:
        return "upload the file again (for another topic it is a new source)"

    def send_by_other_rules(self, stream: str) -> str:
        return f"upload the file again, and trigger {stream}_load with load_changed_objects"

    def rows(self, systems: Systems) -> int | None:
        """The object is read again, by another parser, as it was planned."""
        version = self.version
        return systems.bucket(version.bucket).data_rows(version, self.form)

    @classmethod
    def datasets(cls, sources: Sequence[Self]) -> list[Dataset]:
        """One per bucket, named after what its keys have in common."""
        found: dict[str, list[ObjectVersion]] = defaultdict(list)
        for source in sources:
            found[source.document["bucket"]].append(source.version)
        return [
            Dataset(
                f"s3://{bucket}",
                _common([one.key for one in versions]),
                len(versions),
                sum(one.size for one in versions),
            )
            for bucket, versions in found.items()
        ]


def _common(keys: Sequence[str]) -> str:
    """The key of one object; of several the folder that they share."""
    if len(keys) == 1:
        return keys[0]
    # Up to the last slash of what they have in common.
    return commonprefix(keys).rpartition("/")[0] or "/"  # noqa: RUF071


def select_objects(
    ledger: Ledger,
    bucket: Bucket,
    params: Mapping[str, Any],
    verified: VerifiedSources | None = None,
    check: Callable[[ObjectContents, Sequence[Found]], None] = lambda *_: None,
) -> NewSources:
    """The object versions that ``params`` (source_prefix, objects) select, without verified ones (unless
    ``verify_again``). Without ``verified`` nothing is known of earlier loads.

    A version with the content of an earlier one is that one's source; the plan names it as
    ``uploaded_again``. With ``withhold`` each new one is ``withheld``: the stream leaves its records to a
    change. Raises Missing if an object does not exist, Refused if one has no header line, is to be withheld
    and replaces nothing, or has other content than what was loaded under its key, unless ``withhold`` or
    ``load_changed_objects``. ``check`` may refuse what is to be published beside other contents.
    """
    objects = bucket.resolve(params.get("source_prefix") or "", params.get("objects") or ())
    by_id = {source.source_id: source for source in objects}
    before = None if params.get("verify_again") else verified
    new = without_verified([_document_of(source) for source in by_id.values()], before)
    selected = [by_id[document["source_id"]] for document in new]
    withheld = {"withheld": True} if params.get("withhold") else {}
    if verified is None:
        check_headers(bucket, selected)
        return NewSources((document | withheld for document in new), new.verified, new.reverted)
    is_asked = bool(withheld or params.get("load_changed_objects"))
    # Each attempt of the claim chooses again, of the same versions.
    checked = set[str]()
    contents = ObjectContents(ledger, bucket, verified, is_asked, objects.single)

    def choose(found: list[Found]) -> list[Found]:
        if not withheld:
            check(contents, found)
        if changed := [one for one in found if one.known is Known.CHANGED and not is_asked]:
            raise _changed(contents, changed)
        if withheld:
            _check_replaces(found)
        unchecked = [one.version for one in found if one.is_own and one.version.source_id not in checked]
        check_headers(bucket, unchecked)
        checked.update(version.source_id for version in unchecked)
        return [one for one in found if one.known is not Known.REVERTED]

    found = contents.claim(selected, choose)
    own = [one.document() | withheld for one in found if one.is_own]
    same = [one.document() | withheld for one in found if one.known is Known.SAME]
    again = without_verified(same, before)
    return NewSources(
        [*own, *again],
        VerifiedSources.both(new.verified, again.verified),
        [*new.reverted, *(one.source_id for one in found if one.known is Known.REVERTED)],
        {
            "uploaded_again": [one.uploaded_again() for one in found if not one.is_own],
            "left_out": objects.names_others,
        },
    )


def _check_replaces(withheld: Iterable[Found]) -> None:
    """Raises Refused for an object that replaces nothing: its records would stay in quarantine."""
    for one in withheld:
        if one.known is Known.NEW:
            raise Refused(
                f"{one.version.uri}: no other content of it was loaded, or all of that was reverted, so "
                "withheld records would wait for nothing. Fix: load it without withhold",
                ErrorCode.INVALID_PARAMETER,
            )


def _changed(contents: ObjectContents, changed: Sequence[Found]) -> Refused:
    """Why objects are not loaded of which other content was loaded before."""
    problems, stream = [], contents.ledger.stream
    for one in changed[:MAX_PROBLEMS]:
        other = one.others[-1]
        planned, is_sent = contents.sent(other)
        run = (planned or {}).get("run_id", "unknown")
        problems.append(
            f"{one.version.uri}: its version {one.version.version_id or one.version.etag} has other content "
            f"than its version {other.version_id or other.etag}, which run {run!r} "
            f"{'has loaded' if is_sent else 'has planned, and may have sent a part of'}"
        )
    if more := len(changed) - len(problems):
        problems.append(f"and {more} more")
    return Refused(
        f"{'; '.join(problems)}. Nothing was sent. Fix: trigger {stream}_load with objects and withhold, "
        f"then {stream}_change with action replace; or {stream}_load with load_changed_objects, which loads "
        "the rows beside the older ones",
        ErrorCode.KEY_ALREADY_LOADED,
    )


def _document_of(source: ObjectVersion) -> Document:
    return {"source_id": source.source_id, **asdict(source)}


def check_first(bucket: Bucket, prefix: str, objects: Sequence[str]) -> None:
    """Check the objects of a stream's first load as :func:`select_objects` does, before there is a table:
    its columns keep their types. Raises Missing if an object does not exist, Refused for one of which no row
    would be published."""
    check_headers(bucket, bucket.resolve("" if objects else prefix, objects))


def check_headers(bucket: Bucket, selected: Sequence[ObjectVersion]) -> None:
    """Raises Refused for an object whose begin tells that no row of it would be published."""
    from sluice.clients.s3.requests import at_once

    at_once(selected, bucket.check_head)
