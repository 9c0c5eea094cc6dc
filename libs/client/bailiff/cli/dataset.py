"""`bailiff audit export --anonymise`: its options and its messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bailiff_core.humanize import count_text

from .session import Session

if TYPE_CHECKING:
    from bailiff.audit.log_sources import Source

Anonymise = Annotated[bool, typer.Option("--anonymise", help="FILE is a folder: write an anonymised dataset.")]
KeepKey = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE", help="With --anonymise: file with the key of the pseudonyms, created if missing. Default: not kept."
    ),
]
Licence = Annotated[str, typer.Option(metavar="TEXT", help="With --anonymise: licence named in the manifest.")]
NameOriginal = Annotated[bool, typer.Option("--name-original", help="With --anonymise: name the original log in the manifest.")]


async def write_anonymised(
    session: Session, folder: Path, source: Source, keep_key: Path | None, licence: str, name_original: bool
) -> None:
    """Writes the dataset, and prints the re-identification risks."""
    from bailiff.dataset import Pseudonyms, kept_key, new_key, write_dataset

    key = new_key() if keep_key is None else kept_key(keep_key)
    made = await write_dataset(folder, source, Pseudonyms(key), licence, name_original=name_original)
    size = f"{count_text(made.records, 'record')} ({made.left_out} left out), {made.bytes // 1024} KiB"
    session.say(f"{folder}: {size}; start with dataset.json")
    if keep_key is None:
        session.say("the key of its pseudonyms was not kept: another export will have other pseudonyms")
    for sentence in made.reidentification_risks:
        session.say(f"review before publishing: {sentence}")
