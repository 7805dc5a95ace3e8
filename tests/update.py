"""Make everything that is committed but derived: `python -m tests.update`.

The bundled trace is rewritten only where its content has changed, because its bytes (and so its
hash in a golden file) depend on the version of SQLite.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.golden.cases import FILES, ROOT, SAMPLE, dump, golden_files, write_sample


def main() -> None:
    """Write what has changed, and say what that is."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / SAMPLE.name
        write_sample(made)
        if not SAMPLE.exists() or dump(made) != dump(SAMPLE):
            SAMPLE.parent.mkdir(exist_ok=True)
            SAMPLE.write_bytes(made.read_bytes())
            print(SAMPLE.relative_to(ROOT))
    golden = golden_files()
    for path, make in golden.items():
        text = make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(path.relative_to(ROOT))
    for path in {*FILES.iterdir()} - {*golden}:
        path.unlink()
        print(f"{path.relative_to(ROOT)} (removed)")


if __name__ == "__main__":
    main()
