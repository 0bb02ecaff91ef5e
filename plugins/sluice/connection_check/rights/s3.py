"""The roles' rights on buckets and objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from sluice.core.registry.schemas import KEPT_PREFIX as SCHEMAS
from sluice.core.schema_versions.documents import FOLDERS as DOCUMENTS
from sluice.core.tables.without_record import FOLDER as WITHOUT_RECORD
from sluice.ledger.batch_log import FOLDER as BATCHES
from sluice.ledger.batch_log import PUBLISHED, ROLLED_UP
from sluice.ledger.keys import PORTIONS

GET, GET_VERSION, PUT = "s3:GetObject", "s3:GetObjectVersion", "s3:PutObject"
ABORT, PARTS = "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"
LIST, LOCATION = "s3:ListBucket", "s3:GetBucketLocation"
LIST_VERSIONS, VERSIONING = "s3:ListBucketVersions", "s3:GetBucketVersioning"
LIST_UPLOADS, DELETE = "s3:ListBucketMultipartUploads", "s3:DeleteObject"
READING = (GET, GET_VERSION)
WRITING = (PUT, ABORT, PARTS)
LISTING = (LIST, LOCATION)
SEEING_VERSIONS = (LIST_VERSIONS, VERSIONING, LIST_UPLOADS)
ON_BUCKETS = frozenset({*LISTING, *SEEING_VERSIONS})
KEPT_OF_BATCHES = f"{BATCHES}/{ROLLED_UP.rstrip('/')}"
# Kinds of the records of checks.
RECORDS = ("maintenance/", "reconciled_", "passed_")
# Folders of a table's documents of which maintenance deletes old ones.
EXPIRING = (f"{BATCHES}/{PUBLISHED.rstrip('/')}", KEPT_OF_BATCHES, WITHOUT_RECORD)


@dataclass(frozen=True)
class Places:
    """Where objects are, each as `bucket` or `bucket/prefix`, without a slash at its end."""

    lake: str
    """The warehouse: the tables' files."""
    ledger: str
    """The ledger's documents."""
    source: str
    """The bucket of the objects to load."""
    files: tuple[str, ...] = ()
    """Prefixes of sinks `files`."""
    documents: str = ""
    """What is kept beside new tables; empty: in the table's folder."""
    checkpoints: str = ""
    """The bucket of checkpoints, with their prefix; empty: on a volume."""
    is_listed: bool = True
    """False: the warehouse's bucket cannot be listed, and has no versions, by declaration."""
    in_catalog: bool = False
    """Whether the tables' files are the catalog's matter: it gives their keys, or has buckets of its own for
    them (Amazon S3 Tables)."""
    is_deleted_from: bool = True
    """False: the catalog deletes the tables' files, by declaration."""

    @property
    def buckets(self) -> tuple[str, ...]:
        """Those of lake and ledger that are listed."""
        listed = [self.lake] if self.is_listed else []
        found = [*listed, self.ledger, *([self.documents] if self.documents else [])]
        return tuple(dict.fromkeys(bucket_of(one) for one in found))


@dataclass(frozen=True)
class Grant:
    """``actions`` on each of ``resources``: buckets, or `bucket/pattern` of keys. ``is_optional``: some
    declarations of streams need it, and others do not."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    is_optional: bool = False

    def allows(self, action: str, resource: str) -> bool:
        """Whether it is a right to do ``action`` with the bucket, or with the object `bucket/key`."""
        return action in self.actions and any(fnmatchcase(resource, one) for one in self.resources)


def bucket_of(place: str) -> str:
    """The bucket in `bucket/prefix`."""
    return place.partition("/")[0]


def s3_grants(places: Places) -> dict[str, list[Grant]]:
    """Role -> its rights; the rest is denied. Only ``maintenance`` may delete, and only current versions: of
    tables' files, of documents of batches, of records of checks, and of what unfinished verifications left;
    and ``consumer`` old checkpoints in their bucket."""
    ledger = f"{places.ledger}/*"
    tables = () if places.in_catalog else (f"{places.lake}/*",)
    documents = (f"{places.documents}/*",) if places.documents else ()
    files = tuple(f"{one}/*" for one in places.files)
    both = tuple(dict.fromkeys([*places.buckets, bucket_of(places.source)]))
    read = tuple(f"{one}/*" for one in dict.fromkeys([bucket_of(places.lake), *both]))
    if places.in_catalog:
        read = (ledger, *documents, f"{places.source}/*")
    schemas = f"{places.ledger}/{SCHEMAS}/*"
    deletable = ("data", "metadata", *DOCUMENTS) if places.is_deleted_from else ()
    # Where tables have their documents: those of a catalog's buckets have them elsewhere.
    beside = [places.lake] if places.is_deleted_from or not places.in_catalog else []
    beside += [places.documents] if places.documents else []
    kept: list[Grant] = []
    if places.checkpoints:
        kept = [
            Grant(LISTING, (bucket_of(places.checkpoints),)),
            Grant((*READING, *WRITING, DELETE), (f"{places.checkpoints}/*",)),
        ]
    granted = {
        "airflow": [
            Grant((*LISTING, *SEEING_VERSIONS), both),
            Grant(READING, read),
            Grant((PUT,), (ledger,)),
        ],
        "producer": [
            Grant(LISTING, both),
            Grant(READING, (f"{places.source}/*", ledger, *tables)),
            Grant(WRITING, tables),
            # Schemas with the new columns of files.
            Grant((PUT,), (schemas,), is_optional=True),
        ],
        "consumer": [
            Grant(LISTING, places.buckets),
            Grant((*READING, *WRITING), (*tables, *files)),
            # Small, written once, and read by their names.
            Grant((GET, PUT), documents),
            # The plans of changes.
            Grant(READING, (f"{places.ledger}/*/change.json",)),
            # Schemas of a registry, which are kept for ever.
            Grant((*READING, PUT), (schemas,), is_optional=True),
            *kept,
        ],
        "reader": [
            Grant(LISTING, places.buckets),
            Grant(READING, (*tables, *files)),
            Grant((GET,), documents),
        ],
        "observer": [
            Grant(LISTING, places.buckets),
            Grant(READING, (*tables, ledger)),
            Grant((GET,), documents),
        ],
        # Airflow reads and decides; not loaded/, the tables' record of loaded rows.
        "maintenance": [
            Grant((DELETE,), tuple(f"{places.lake}/*/{part}/*" for part in deletable)),
            Grant((DELETE,), tuple(f"{one}/*/{part}/*" for one in beside for part in EXPIRING)),
            # What is kept of these; read, if another run wrote it at the same time.
            Grant((GET, PUT), tuple(f"{one}/*/{KEPT_OF_BATCHES}/*" for one in beside)),
            Grant((DELETE,), (f"{places.ledger}/*/{PORTIONS}*",)),
            Grant((DELETE,), tuple(f"{places.ledger}/*/history/{kind}*" for kind in RECORDS)),
        ],
    }
    return {role: [one for one in theirs if one.resources] for role, theirs in granted.items()}


def allows(grants: Iterable[Grant], action: str, resource: str, *, optional: bool = True) -> bool:
    """Whether one of the grants is this right; not by an optional one, unless ``optional``."""
    return any(one.allows(action, resource) for one in grants if optional or not one.is_optional)


def samples(grants: Iterable[Grant], name: str) -> Sequence[str]:
    """An object `bucket/key` of each resource with objects; ``name``: in place of what a pattern leaves
    open."""
    found = (resource for grant in grants for resource in grant.resources if "/" in resource)
    return list(dict.fromkeys(one.replace("*", name) for one in found))
