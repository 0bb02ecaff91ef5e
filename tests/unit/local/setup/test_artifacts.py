"""An artifact counts only when whole: half-made, damaged and interrupted ones are made again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from local.setup.cache import MANIFEST, Artifact, cleanup, fingerprint, locked


def artifact(root: Path, hashed: bool = True) -> Artifact:
    return Artifact(root, "thing", "0123", hashed)


def make(folder: Path) -> None:
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "file").write_text("content")


def ensure(thing: Artifact, **options: bool) -> list[str]:
    said: list[str] = []
    thing.ensure(make, said.append, **options)
    return said


def test_made_once_and_then_left_alone(tmp_path: Path) -> None:
    thing = artifact(tmp_path)
    assert thing.damage() == "it is missing"
    assert ensure(thing) == []
    assert thing.damage() is None

    def never(_: Path) -> None:
        pytest.fail("made again without need")

    thing.ensure(never, lambda _: None)


@pytest.mark.parametrize(
    ("harm", "hashed", "said"),
    [
        (lambda f: f.write_text("other content"), False, "sub/file has 13 bytes instead of 7"),
        (lambda f: f.write_text("CONTENT"), True, "sub/file has another SHA-256"),
        (lambda f: f.unlink(), False, "sub/file: No such file or directory"),
        (lambda f: (f.parents[1] / MANIFEST).unlink(), True, "it is incomplete"),
        (lambda f: (f.parents[1] / MANIFEST).write_text("{"), True, "not readable as JSON"),
    ],
)
def test_damage_is_said_and_repaired(
    tmp_path: Path, harm: Callable[[Path], object], hashed: bool, said: str
) -> None:
    thing = artifact(tmp_path, hashed)
    ensure(thing)
    harm(thing.path / "sub" / "file")
    [line] = ensure(thing)
    assert said in line
    assert thing.damage() is None
    assert (thing.path / "sub" / "file").read_text() == "content"


def test_an_interruption_leaves_nothing_that_counts(tmp_path: Path) -> None:
    thing = artifact(tmp_path)

    def interrupted(folder: Path) -> None:
        make(folder)
        raise KeyboardInterrupt

    for in_place in (False, True):
        with pytest.raises(KeyboardInterrupt):
            thing.ensure(interrupted, lambda _: None, in_place=in_place)
        assert thing.damage() is not None
    ensure(thing)
    cleanup(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thing-0123"]


def test_bytecode_may_come_and_go(tmp_path: Path) -> None:
    thing = artifact(tmp_path, hashed=False)
    bytecode = thing.path / "sub" / "__pycache__" / "x.pyc"

    def with_bytecode(folder: Path) -> None:
        make(folder)
        bytecode.parent.mkdir()
        bytecode.write_text("x")

    thing.ensure(with_bytecode, lambda _: None, in_place=True)
    bytecode.write_text("of another size")
    assert thing.damage() is None


def test_leftovers_of_interrupted_runs_are_swept(tmp_path: Path) -> None:
    for name in (".part-old-1", ".gone-old-2-77"):
        make(tmp_path / name)
    ensure(artifact(tmp_path))
    cleanup(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thing-0123"]


def test_fingerprints_keep_inputs_apart() -> None:
    assert fingerprint("ab", "c") != fingerprint("a", "bc")
    assert fingerprint("a") == fingerprint(b"a")


def test_a_second_set_up_waits_and_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    entered = threading.Event()

    def second() -> None:
        with locked(tmp_path, said.append):
            entered.set()

    with locked(tmp_path, said.append):
        other = threading.Thread(target=second)
        other.start()
        assert not entered.wait(0.2)
    other.join(5)
    assert entered.is_set()
    assert said == [f"waiting for another set-up that holds {tmp_path / 'lock'}"]
