"""`bailiff audit export --anonymise`: its options, and what it tells the exporter."""

from pathlib import Path
from typing import Annotated

import typer

from bailiff.dataset import Pseudonyms, kept_key, new_key, write_dataset
from bailiff.sources import Source
from bailiff_core.words import count_text

from .session import Session

Anonymise = Annotated[bool, typer.Option("--anonymise", help="FILE is a folder: a dataset that may be given away.")]
KeepKey = Annotated[
    Path | None,
    typer.Option(
        metavar="KEYFILE", help="With --anonymise: the key of the pseudonyms, made where it is not there. Default: thrown away."
    ),
]
Licence = Annotated[str, typer.Option(metavar="TEXT", help="With --anonymise: the licence that its manifest names.")]
NameOriginal = Annotated[
    bool, typer.Option("--name-original", help="With --anonymise: the manifest says from which log it was made.")
]


async def write_anonymised(
    session: Session, folder: Path, source: Source, keep_key: Path | None, licence: str, name_original: bool
) -> None:
    """Write the dataset, and say what stands out in it."""
    key = new_key() if keep_key is None else kept_key(keep_key)
    made = await write_dataset(folder, source, Pseudonyms(key), licence, name_original=name_original)
    size = f"{count_text(made.records, 'record')} ({made.left_out} left out), {made.bytes // 1024} KiB"
    session.say(f"{folder}: {size}; begin with dataset.json")
    if keep_key is None:
        session.say("the key of its pseudonyms was thrown away: another export will have other ones")
    for sentence in made.stands_out:
        session.say(f"look before you give it away: {sentence}")
