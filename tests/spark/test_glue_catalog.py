"""AWS Glue under a writer: what came between is refused, its rights are documented, its login is hidden."""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any, cast

import pytest

from local.base import REPO
from sluice.catalog_check.kept import CatalogBroken
from sluice.catalog_check.promises import RACES
from sluice.clients.lake.catalog import Lake
from sluice.config.platform_sections.catalog import CHECK_NAMESPACE, GLUE
from spark_jobs.common.lake import promises, tables
from spark_jobs.common.lake.expected_refs import PREFIX
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused, IcebergTable
from tests.support import glue_server
from tests.support.catalog_proxy import Answer, Ask, Asked, passed_on
from tests.support.lakehouse import Stream, commit
from tests.support.raising import raising

pytestmark = pytest.mark.parametrize("stream", [GLUE], indirect=True)
ACTION = re.compile(r"glue:(\w+)")


def test_a_publish_is_refused_if_the_branch_was_removed_while_the_request_was_under_way(
    stream: Stream,
) -> None:
    """After Iceberg has compared the metadata, and before Glue has compared the version."""
    writer = stream.writer()
    writer.acquire()
    commit(writer.table, {"sluice.kind": "batch"}, writer.branch)
    other = IcebergTable(stream.spark, stream.spec.table)
    before = {name: other.head(name) for name in other.branches()}
    branch = before[writer.branch]
    proxy = stream.services.glue_proxy
    proxy.rule = glue_server.before_a_commit(
        lambda: other.change_refs({writer.branch: branch}, {writer.branch: None})
    )
    with raising(CommitRefused):
        writer.table.change_refs({MAIN: before[MAIN], writer.branch: branch}, {MAIN: branch})
    proxy.rule = passed_on
    other.refresh()
    assert {name: other.head(name) for name in other.branches()} == {MAIN: before[MAIN]}


def documented(role: str) -> set[str]:
    """The actions of docs/catalogs.md."""
    page = (REPO / "docs" / "catalogs.md").read_text()
    section = page.partition("## AWS Glue")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("|")]
    return {
        action for _, roles, actions, *_ in rows if f"`{role}`" in roles for action in ACTION.findall(actions)
    }


@pytest.mark.exhaustive
def test_a_stream_asks_for_what_is_documented_of_its_roles(stream: Stream) -> None:
    asked = set[str]()

    def noted(one: Asked, ask: Ask) -> Answer:
        asked.add(glue_server.action(one))
        return ask(one)

    proxy = stream.services.glue_proxy
    proxy.rule = noted
    promises._check.cache_clear()
    stream.spark.conf.set(f"{PREFIX}{CHECK_NAMESPACE}", f"check_{stream.spec.name}")
    tables.create(stream.spark, f"new_{stream.spec.name}.made", ["id long"])
    stream.send(2)
    stream.run(stream.writer()).query.stop()
    stream.assert_exact(2)
    as_consumer, asked = asked.copy(), set()
    with closing(Lake.open(stream.services.on_glue("airflow"))) as lake:
        assert lake.position(stream.spec.table, stream.spec.quarantine_table) is not None
    proxy.rule = passed_on
    assert as_consumer == documented("consumer")
    assert asked == documented("airflow")


def test_the_login_is_in_no_argument_and_in_no_configuration_of_the_jvm(stream: Stream) -> None:
    login = stream.platform.s3
    jvm = cast("Any", stream.spark._jvm)
    assert jvm.java.lang.System.getProperty("aws.secretAccessKey") == login.secret_key
    arguments = list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
    settings = dict(stream.spark.sparkContext.getConf().getAll())
    assert not [text for text in (*arguments, *settings.values()) if login.secret_key in text]


def test_no_table_is_made_in_one_that_accepts_an_old_version(stream: Stream) -> None:
    def forgets_versions(asked: Asked, ask: Ask) -> Answer:
        return ask(asked.with_json({key: value for key, value in asked.json.items() if key != "VersionId"}))

    proxy = stream.services.glue_proxy
    proxy.rule = forgets_versions
    promises._check.cache_clear()
    stream.spark.conf.set(f"{PREFIX}{CHECK_NAMESPACE}", f"broken_{stream.spec.name}")
    with raising(CatalogBroken, proxy.url, "meanwhile", "accepted and accepted") as broken:
        tables.create(stream.spark, "raw.not_made", ["id long"])
    proxy.rule = passed_on
    assert any(race.promise in str(broken.value) for race in RACES)
    assert tables.load(stream.spark, "raw.not_made") is None
