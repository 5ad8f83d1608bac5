"""What can happen to a file in which a run is kept."""

from __future__ import annotations

import os
import pickle
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from faults.library import Library
from faults.verdict import Outcome

REFUSED = {Outcome.CLEAR}
UNHARMED = {Outcome.CLEAR, Outcome.WORKS}


@dataclass(frozen=True)
class Damage:
    """What is done to the file of a library, given a flag that its payload would raise; and how opening it may end."""

    do: Callable[[Library, Path, Path], None]
    right: set[Outcome]
    needs: tuple[str, ...] = ("store",)


class Payload:
    """Unpickling it makes an empty file, and that is all it does."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag

    def __reduce__(self) -> object:
        return open, (str(self.flag), "w")


def payload(flag: Path) -> bytes:
    return pickle.dumps(Payload(flag))


def with_bytes(change: Callable[[bytearray], bytes]) -> Callable[[Library, Path, Path], None]:
    """Damage to the bytes, whatever they are."""

    def do(library: Library, file: Path, flag: Path) -> None:
        file.write_bytes(change(bytearray(file.read_bytes())))

    return do


def flipped(part: float, bit: int) -> Callable[[bytearray], bytes]:
    """One bit flipped, at this part of the length."""

    def change(data: bytearray) -> bytes:
        data[int(part * (len(data) - 1))] ^= 1 << bit
        return bytes(data)

    return change


def all_flipped_in(low: float, high: float) -> Callable[[bytearray], bytes]:
    """All bits flipped between two parts of the length."""

    def change(data: bytearray) -> bytes:
        begin, end = int(low * len(data)), int(high * len(data))
        return bytes(data[:begin]) + bytes(255 - byte for byte in data[begin:end]) + bytes(data[end:])

    return change


def as_directory(library: Library, file: Path, flag: Path) -> None:
    file.unlink()
    file.mkdir()


def as_zip_bomb(library: Library, file: Path, flag: Path) -> None:
    """An .npz of 100 MB of zeros in 100 kB."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(100 << 20))


def as_huge_header(library: Library, file: Path, flag: Path) -> None:
    """An .npy that declares 7 TiB."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117) + b"\n"
    file.write_bytes(b"\x93NUMPY\x01\x00v\x00" + header)


def as_other_database(library: Library, file: Path, flag: Path) -> None:
    file.unlink()
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()


def as_pickle(library: Library, file: Path, flag: Path) -> None:
    file.write_bytes(payload(flag))


def forged(well: bool) -> Callable[[Library, Path, Path], None]:
    return lambda library, file, flag: library.forge(file, payload(flag), well)


DAMAGES: dict[str, Damage] = {
    "nothing happens": Damage(lambda *_: None, {Outcome.WORKS}),
    "missing": Damage(lambda library, file, flag: file.unlink(), REFUSED),
    "a directory": Damage(as_directory, REFUSED),
    "empty": Damage(with_bytes(lambda data: b""), REFUSED),
    "one byte": Damage(with_bytes(lambda data: bytes(data[:1])), REFUSED),
    "a quarter of it": Damage(with_bytes(lambda data: bytes(data[: len(data) // 4])), REFUSED),
    "half of it": Damage(with_bytes(lambda data: bytes(data[: len(data) // 2])), REFUSED),
    "all but the last byte": Damage(with_bytes(lambda data: bytes(data[:-1])), UNHARMED),
    "random bytes": Damage(with_bytes(lambda data: os.urandom(len(data))), REFUSED),
    "text": Damage(with_bytes(lambda data: b"x0,x1,f\n1.0,1.0,6.25\n"), REFUSED),
    "zeros": Damage(with_bytes(lambda data: bytes(len(data))), REFUSED),
    **{
        f"bit {bit} flipped at {part:.0%}": Damage(with_bytes(flipped(part, bit)), UNHARMED)
        for part, bit in ((0.0, 0), (0.1, 3), (0.3, 6), (0.45, 2), (0.6, 5), (0.7, 1), (0.8, 4), (0.9, 6), (0.95, 7))
    },
    "a tenth in the middle inverted": Damage(with_bytes(all_flipped_in(0.45, 0.55)), UNHARMED),
    "the last tenth inverted": Damage(with_bytes(all_flipped_in(0.9, 1.0)), UNHARMED),
    "another program's database": Damage(as_other_database, REFUSED),
    "a zip bomb": Damage(as_zip_bomb, REFUSED),
    "a header of 7 TiB": Damage(as_huge_header, REFUSED),
    "a pickle that does something": Damage(as_pickle, REFUSED),
    "state replaced by a pickle that does something": Damage(forged(well=False), REFUSED, ("database",)),
    "the same with checksums that fit": Damage(forged(well=True), REFUSED, ("database", "checksums")),
}
