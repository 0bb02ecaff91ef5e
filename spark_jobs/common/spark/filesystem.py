"""Files by URI (``file:``, ``s3a:``) through Hadoop's FileSystem in the JVM, as Spark reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

T = TypeVar("T")
PARALLEL_COPIES = 8


class Files:
    """The file systems as the session is configured now. Raises OSError, FileNotFoundError if a file is
    missing; both name the URI."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = cast("Any", spark._jvm)
        self._conf = cast("Any", spark._jsparkSession).sessionState().newHadoopConf()

    def read(self, uri: str) -> str:
        fs, path = self._at(uri)

        def read_all() -> str:
            stream = fs.open(path)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

        return _call(uri, read_all)

    def write(self, uri: str, text: str) -> None:
        fs, path = self._at(uri)

        def put() -> None:
            stream = fs.create(path, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

        _call(uri, put)

    def exists(self, uri: str) -> bool:
        fs, path = self._at(uri)
        return bool(_call(uri, lambda: fs.exists(path)))

    def names(self, uri: str) -> list[str]:
        """Sorted names in a folder; empty without the folder."""
        return sorted(name for name, _ in self._listed(uri))

    def walk(self, uri: str) -> list[str]:
        """Files below a folder, as relative paths; empty without the folder.

        Hadoop's own recursive listing fails if a local file vanishes meanwhile.
        """
        files = []
        for name, is_folder in self._listed(uri):
            files += [f"{name}/{below}" for below in self.walk(f"{uri}/{name}")] if is_folder else [name]
        return files

    def _listed(self, uri: str) -> list[tuple[str, bool]]:
        fs, path = self._at(uri)
        try:
            entries = _call(uri, lambda: fs.listStatus(path))
        except FileNotFoundError:
            return []
        return [(str(entry.getPath().getName()), bool(entry.isDirectory())) for entry in entries]

    def copy(self, source: str, target: str, names: Iterable[str]) -> list[str]:
        """Copy files to another folder; return those that were missing by then."""

        def one(name: str) -> str | None:
            fs, path = self._at(f"{source}/{name}")
            _, to = self._at(f"{target}/{name}")
            copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
            try:
                _call(f"{source}/{name}", lambda: copy(fs, path, fs, to, False, True, self._conf))
            except FileNotFoundError:
                return name
            return None

        with ThreadPoolExecutor(PARALLEL_COPIES) as pool:
            return [name for name in pool.map(one, names) if name is not None]

    def remove(self, uri: str) -> None:
        """Remove a file, or a folder with its files; nothing if it is missing."""
        fs, path = self._at(uri)
        _call(uri, lambda: fs.delete(path, True))

    def _at(self, uri: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(uri)
        return _call(uri, lambda: path.getFileSystem(self._conf)), path


def _call(uri: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except Py4JJavaError as error:
        java = error.java_exception
        reason = str(java.toString()).splitlines()[0]
        if "FileNotFoundException" in java.getClass().getName():
            raise FileNotFoundError(f"{uri}: not found ({reason})") from error
        raise OSError(f"{uri}: {reason}") from error
