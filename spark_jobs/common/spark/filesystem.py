"""Files by their URI (``file:``, ``s3a:``), through Hadoop's FileSystem in the JVM: as Spark itself sees
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

T = TypeVar("T")
COPIES_AT_ONCE = 8


class Files:
    """The file systems as the session is configured when this is made. Raises OSError for what they refuse,
    FileNotFoundError for what is not there; both name the URI."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm = cast("Any", spark._jvm)
        self._conf = cast("Any", spark._jsparkSession).sessionState().newHadoopConf()

    def read(self, uri: str) -> str:
        """The text of a file."""
        fs, path = self._at(uri)

        def whole() -> str:
            stream = fs.open(path)
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

        return _asked(uri, whole)

    def write(self, uri: str, text: str) -> None:
        """Put a file; it is there when this returns."""
        fs, path = self._at(uri)

        def put() -> None:
            stream = fs.create(path, True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

        _asked(uri, put)

    def exists(self, uri: str) -> bool:
        fs, path = self._at(uri)
        return bool(_asked(uri, lambda: fs.exists(path)))

    def names(self, uri: str) -> list[str]:
        """What lies directly in a folder, sorted; nothing where there is no such folder."""
        return sorted(name for name, _ in self._listed(uri))

    def walk(self, uri: str) -> list[str]:
        """The files below a folder, as paths relative to it; nothing where there is no such folder.

        Folder by folder: in one go, Hadoop asks ``ls`` for the rights of each local file, and breaks off
        where one is gone by then.
        """
        found = []
        for name, is_folder in self._listed(uri):
            found += [f"{name}/{below}" for below in self.walk(f"{uri}/{name}")] if is_folder else [name]
        return found

    def _listed(self, uri: str) -> list[tuple[str, bool]]:
        fs, path = self._at(uri)
        try:
            found = _asked(uri, lambda: fs.listStatus(path))
        except FileNotFoundError:
            return []
        return [(str(status.getPath().getName()), bool(status.isDirectory())) for status in found]

    def copy(self, source: str, target: str, names: Iterable[str]) -> list[str]:
        """Copy files from one folder to the other; returns those that were gone when their turn came."""

        def one(name: str) -> str | None:
            fs, path = self._at(f"{source}/{name}")
            _, to = self._at(f"{target}/{name}")
            copy = self._jvm.org.apache.hadoop.fs.FileUtil.copy
            try:
                _asked(f"{source}/{name}", lambda: copy(fs, path, fs, to, False, True, self._conf))
            except FileNotFoundError:
                return name
            return None

        with ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
            return [name for name in pool.map(one, names) if name is not None]

    def remove(self, uri: str) -> None:
        """Remove a folder with all that is in it, or what is left of it."""
        fs, path = self._at(uri)
        _asked(uri, lambda: fs.delete(path, True))

    def _at(self, uri: str) -> tuple[Any, Any]:
        path = self._jvm.org.apache.hadoop.fs.Path(uri)
        return _asked(uri, lambda: path.getFileSystem(self._conf)), path


def _asked(uri: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except Py4JJavaError as error:
        java = error.java_exception
        reason = str(java.toString()).splitlines()[0]
        if "FileNotFoundException" in java.getClass().getName():
            raise FileNotFoundError(f"{uri}: is not there ({reason})") from error
        raise OSError(f"{uri}: {reason}") from error
