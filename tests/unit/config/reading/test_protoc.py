"""Texts of .proto files, compiled in a process of their own, in bounds."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.confluent import meta_pb2
from confluent_kafka.schema_registry.confluent.type import decimal_pb2, variant_pb2
from confluent_kafka.schema_registry.confluent.types import decimal_pb2 as earlier_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from sluice.config.reading import protoc, protoc_process
from sluice.config.reading.protoc import CompilerFailed, compiled
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.schema import MAX_FILES, NotCompiled, ProtobufSchema
from tests.support.raising import raising

HEAD = 'syntax = "proto3";'
ONE = f"{HEAD} message One {{ int32 id = 1; }}"


def names(files: dict[str, str], root: str) -> list[str]:
    return [file.name for file in FileDescriptorSet.FromString(compiled(files, root)).file]


def test_imports_are_of_the_given_files_and_googles() -> None:
    text = f'{HEAD} import "a/b.proto"; import "google/protobuf/any.proto"; message Two {{ One one = 1; }}'
    files = {"schema.proto": text, "a/b.proto": ONE, "not_imported.proto": "no schema"}
    assert names(files, "schema.proto") == ["a/b.proto", "google/protobuf/any.proto", "schema.proto"]


def test_what_confluents_serializers_do_not_register_can_be_imported() -> None:
    text = f"""{HEAD} import "confluent/meta.proto"; import "confluent/types/decimal.proto";
        import "google/type/money.proto"; import "confluent/type/variant.proto";
        message Two {{
            confluent.type.Decimal a = 1 [(confluent.field_meta).params = {{key: "scale" value: "2"}}];
            google.type.Money b = 2; confluent.type.Variant c = 3; }}"""
    schema = ProtobufSchema(compiled({"schema.proto": text}, "schema.proto"), "schema.proto")
    money = pa.struct({"currency_code": pa.utf8(), "units": pa.int64(), "nanos": pa.int32()})
    assert TableMessage(schema).columns().field("b").type == money


def test_confluents_files_are_those_of_its_client() -> None:
    for module in (meta_pb2, decimal_pb2, variant_pb2, earlier_pb2):
        theirs = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(theirs)
        content = compiled({"s.proto": f'{HEAD} import "{theirs.name}"; message A {{}}'}, "s.proto")
        ours = next(file for file in FileDescriptorSet.FromString(content).file if file.name == theirs.name)
        theirs.ClearField("options")
        # It gives names of JSON, which are the usual ones.
        for message in ours.message_type:
            for kind in (message, *message.nested_type):
                for field in kind.field:
                    field.ClearField("json_name")
        for field in ours.extension:
            field.ClearField("json_name")
        assert ours == theirs


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"s.proto": f'{HEAD} import "/etc/passwd";'}, "/etc/passwd"),
        ({"s.proto": f'{HEAD} import "../../etc/passwd";'}, "../../etc/passwd"),
        ({"s.proto": f'{HEAD} import "s.proto"; message A {{}}'}, "recursively imports itself"),
        ({"s.proto": "message A { required int32 a = 1; }\0"}, "s.proto:1:"),
        ({"s.proto": f"{HEAD} message A {{ B b = 1; }}"}, '"B" is not defined'),
        ({"s.proto": ONE, "../x.proto": ONE}, "'../x.proto' cannot be the name of a file"),
        ({"s.proto": ONE, "/x.proto": ONE}, "'/x.proto' cannot be the name of a file"),
        ({"s.proto": ONE, "a": ONE, "a/b": ONE}, "is a file, and a folder of another one"),
        ({"s.proto": ONE, **{f"{n}.proto": ONE for n in range(MAX_FILES)}}, "102 files, more than 101"),
        ({"s.proto": f"{HEAD} /* \ud800 */"}, "is not UTF-8"),
    ],
)
def test_what_is_no_schema_has_a_reason(files: dict[str, str], words: str) -> None:
    with raising(NotCompiled, words) as found:
        compiled(files, "s.proto")
    assert "sources" not in str(found.value)


def test_the_compilers_words_are_bounded() -> None:
    """A long name in each of its errors: gigabytes, by a text of a megabyte."""
    fields = "".join(f"int32 b{number} = 1;" for number in range(30_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with raising(NotCompiled) as found:
        compiled({"s.proto": f"{HEAD} message A {{ int32 {'x' * 60_000} = 1; {fields} }}"}, "s.proto")
    assert len(str(found.value)) < 1_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10


@pytest.mark.parametrize("number", [50, 5_000, 200_000])
def test_messages_inside_of_each_other_crash_nothing(number: int) -> None:
    text = HEAD + "message A {" * number + "}" * number
    with raising(NotCompiled):
        compiled({"s.proto": text}, "s.proto")
    # In an option, which has a reader of its own.
    with raising(NotCompiled):
        compiled({"s.proto": f"{HEAD} option x = {'{a:' * number}{'}' * number};"}, "s.proto")


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """What the process does in place of compiling, with one second of a processor."""

    def do(code: str) -> None:
        text = Path(protoc_process.__file__).read_text()
        changes = {
            "MAX_SECONDS = 10": "MAX_SECONDS = 1",
            "    from grpc_tools": f"    {code}\n    from grpc_tools",
        }
        for old, new in changes.items():
            assert text.count(old) == 1
            text = text.replace(old, new)
        (tmp_path / "process.py").write_text(text)
        monkeypatch.setattr(protoc, "_PROCESS", tmp_path / "process.py")

    return do


def test_a_process_compiles_the_same_texts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each check of a declaration asks for them: of Airflow's parser, and of every task."""
    files = {"once.proto": ONE, "other.proto": ONE.replace("One", "Other")}
    run, ran = subprocess.run, list[Any]()

    def counted(*given: Any, **more: Any) -> Any:
        ran.append(given)
        return run(*given, **more)

    monkeypatch.setattr(subprocess, "run", counted)
    for _ in range(3):
        compiled(files, "once.proto")
    assert len(ran) == 1
    compiled(files | {"other.proto": f"{ONE} // changed"}, "once.proto")
    assert len(ran) == 2


def test_what_keeps_the_compiler_busy_or_crashes_it_is_no_schema(compiling: Callable[[str], None]) -> None:
    compiling("while True: pass")
    with raising(NotCompiled, "its compilation takes more than 10 seconds of a processor"):
        compiled({"busy.proto": ONE}, "busy.proto")
    compiling("__import__('os').abort()")
    with raising(NotCompiled, "its compilation ends with SIGABRT"):
        compiled({"crash.proto": ONE}, "crash.proto")


def test_a_process_that_fails_says_nothing_of_the_schema(compiling: Callable[[str], None]) -> None:
    compiling("bytes(2 << 30)")
    with raising(CompilerFailed, "MemoryError"):
        compiled({"large.proto": ONE}, "large.proto")
    compiling("pass")
    assert names({"large.proto": ONE}, "large.proto") == ["large.proto"]


def test_a_machine_without_time_says_nothing_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*given: Any, timeout: float, **more: Any) -> Any:
        raise subprocess.TimeoutExpired("protoc", timeout)

    monkeypatch.setattr(subprocess, "run", late)
    for _ in range(2):
        with raising(CompilerFailed, "did not end in 120 s"):
            compiled({"late.proto": ONE}, "late.proto")
    monkeypatch.undo()
    assert names({"late.proto": ONE}, "late.proto") == ["late.proto"]
